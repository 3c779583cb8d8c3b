"""Keeping the finished shards of a generation from being collected until the whole is there."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dis_derivations.builders.shard_merging import FinishedShard
from dis_derivations.realisation.building import BuildContext, RealisedInput
from dis_derivations.realisation.rooting import label_of
from dis_store import Root, TreeWriter
from dis_store.digest import Digest

_DIGITS_IN_NAME = 16
# Shards in an object of their own, so that keeping one more costs little however many there are.
_BLOCK = 64


@dataclass
class KeptShards:
    """The automatic root of what is finished of one generation: `<its name>-unfinished.<digits of its derivation>`.

    What it keeps are the shards, with their logs so that the records of their builds stay, and the inputs.
    """

    context: BuildContext
    _blocks: list[Digest] = field(default_factory=list, init=False)

    @property
    def name(self) -> str:
        """The name of the root."""
        derivation = self.context.derivation
        return f"{label_of(derivation.name)}-unfinished.{derivation.digest[:_DIGITS_IN_NAME]}"

    def keep(self, shards: Sequence[FinishedShard]) -> None:
        """Keep these shards: all that are finished, of which the first are those that were kept before."""
        derivation = self.context.derivation
        while len(open_ones := shards[len(self._blocks) * _BLOCK :]) > _BLOCK:
            with self.context.store.new_tree() as tree:
                _refer_to_all(tree, open_ones[:_BLOCK])
                self._blocks.append(tree.register())
        with self.context.store.new_tree() as tree:
            for number, block in enumerate(self._blocks):
                tree.reference(f"blocks/{number}", block)
            _refer_to_all(tree, open_ones)
            for name, source in self.context.inputs.items():
                _refer(tree, f"inputs/{name}", source)
            kept = tree.register()
        self.context.store.set_root(
            self.name,
            Root(object=kept, derivation=derivation.digest, automatic=True, label=derivation.name),
        )

    def release(self) -> None:
        """Keep nothing any more."""
        if self.context.store.root(self.name) is not None:
            self.context.store.remove_root(self.name)


def _refer_to_all(tree: TreeWriter, shards: Sequence[FinishedShard]) -> None:
    for each in shards:
        _refer(tree, f"shards/{each.shard.label}", each.results)


def _refer(tree: TreeWriter, path: str, source: RealisedInput) -> None:
    tree.reference(f"{path}/object", source.object)
    if source.log is not None:
        tree.reference(f"{path}/log", source.log)
