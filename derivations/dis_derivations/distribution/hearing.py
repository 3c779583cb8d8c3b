"""What repositories tell of the builds of a manifest: signed documents of a few kilobytes, and nothing that was built."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from dis_derivations.distribution.build_records import TravellingBuild, may_be_of
from dis_derivations.distribution.claim_tags import fetch_claims
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.keys import build_key
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.reference import RegistryReference
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError

_TAG = "drv-"
_MOST_SIGNERS = 64
_MOST_OUTPUTS = 8
_MOST_KEYS = 64
_MOST_DOCUMENTS = 10_000

Outputs = Mapping[Digest, Mapping[str, Digest]]


@dataclass(frozen=True)
class Heard:
    """What repositories told.

    Attributes:
        documents: Signed documents, each once; none of them is verified.
        unsigned: How many builds nobody signed, so that they are nobody's word.
    """

    documents: tuple[bytes, ...]
    unsigned: int


def hear(
    client: RegistryClient,
    repositories: Sequence[RegistryReference],
    derivations: Mapping[Digest, Derivation],
    known: Outputs,
    check_interrupted: Callable[[], None],
) -> Heard:
    """Return the documents that repositories hold about builds of derivations.

    Builders who disagree about one build go on with different inputs. So a build is asked for with all that its inputs
    gave, here or according to anybody.

    Args:
        client: Who asks.
        repositories: Which ones.
        derivations: By digest, inputs first.
        known: What derivations gave here.
        check_interrupted: Raises when the user asked to stop.

    Raises:
        InvalidInputError: There are too many documents.
        IntegrityError: What is there is malformed.
        RegistryRefusedError, TransferError: A repository refuses, or cannot be reached.
    """
    shelves = [_Shelf.of(client, each.base) for each in repositories]
    told = _Told()
    for digest, derivation in derivations.items():
        own = known.get(digest, {})
        outputs = {name: [each] for name, each in own.items()}
        for key in _keys(derivation, told.outputs):
            for shelf in shelves:
                check_interrupted()
                for build in shelf.builds(client, key):
                    if may_be_of(derivation, build.realisation):
                        told.take(build)
                        _note(outputs, build)
        told.outputs[digest] = outputs
    return Heard(tuple(told.documents), len(told.unsigned))


@dataclass
class _Told:
    documents: dict[bytes, None] = field(default_factory=dict)
    unsigned: set[tuple[Digest, str]] = field(default_factory=set)
    outputs: dict[Digest, dict[str, list[Digest]]] = field(default_factory=dict)

    def take(self, build: TravellingBuild) -> None:
        self.documents |= dict.fromkeys(build.envelopes)
        if len(self.documents) > _MOST_DOCUMENTS:
            raise InvalidInputError(
                "what registries say of a manifest is refused",
                cause=f"it is more than {_MOST_DOCUMENTS} documents",
            )
        # Files that prove themselves need nobody's word.
        if not build.envelopes and build.realisation.derivation is not None:
            self.unsigned.add((build.realisation.key, build.realisation.build))


@dataclass(frozen=True)
class _Shelf:
    """A repository, with its tags for claims by the key that they are about."""

    repository: RegistryReference
    tags: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, client: RegistryClient, repository: RegistryReference) -> "_Shelf":
        tags: dict[str, list[str]] = {}
        for tag in client.tags(repository):
            key, dot, _ = tag.removeprefix(_TAG).partition(".")
            if tag.startswith(_TAG) and dot:
                tags.setdefault(key, []).append(tag)
        return cls(repository, tags)

    def builds(self, client: RegistryClient, key: Digest) -> Iterator[TravellingBuild]:
        for tag in self.tags.get(key, ())[:_MOST_SIGNERS]:
            yield from fetch_claims(client, self.repository.with_tag(tag))


def _keys(
    derivation: Derivation, outputs: Mapping[Digest, Mapping[str, Sequence[Digest]]]
) -> list[Digest]:
    """Return the keys, without facts of platforms, of builds from all that is known of the inputs."""
    names = list(derivation.inputs)
    choices = [
        outputs.get(source.derivation, {}).get(source.output, ())
        for source in derivation.inputs.values()
    ]
    found = {
        build_key(derivation, dict(zip(names, chosen, strict=True)), {})
        for chosen in islice(product(*choices), _MOST_KEYS)
    }
    return sorted(found)


def _note(outputs: dict[str, list[Digest]], build: TravellingBuild) -> None:
    for name, digest in build.realisation.outputs.items():
        known = outputs.setdefault(name, [])
        if digest not in known and len(known) < _MOST_OUTPUTS:
            known.append(digest)
