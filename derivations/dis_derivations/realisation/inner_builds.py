"""Builds that another build is made of: each a derivation with a key and a record of its own."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.keys import build_key
from dis_derivations.realisation.build_logs import register_log
from dis_derivations.realisation.build_record import build_record
from dis_derivations.realisation.building import BuildContext, BuildLog, RealisedInput
from dis_derivations.realisation.key_lock import sole_builder
from dis_store import Realisation
from dis_store.digest import Digest

if TYPE_CHECKING:
    from dis_store.lock_holder import LockHolder

_NO_PLATFORM = "any"

Build = Callable[[BuildContext], Mapping[str, Digest]]


@dataclass(frozen=True)
class InnerBuild:
    """A derivation that was realised on the way to another.

    Attributes:
        cached: Nothing was built for it: the store knew the answer.
    """

    realisation: Realisation
    cached: bool

    def as_input(self, output: str) -> RealisedInput:
        """Return one output as the input of another build."""
        return RealisedInput(
            object=self.realisation.outputs[output],
            key=self.realisation.key,
            log=self.realisation.outputs.get("log"),
            platform=self.realisation.platform,
        )


@dataclass(frozen=True)
class _Interruption:
    """The interruption of a build, as what ends a wait for a lock."""

    cancelled: Callable[[], bool]

    def wait(self, timeout: float) -> bool:
        time.sleep(timeout)
        return self.cancelled()


def realise_inner(
    context: BuildContext,
    derivation: Derivation,
    inputs: Mapping[str, RealisedInput],
    build: Build,
    *,
    again: bool = False,
) -> InnerBuild:
    """Take the known result of a derivation, or build it under its key's lock and record the build.

    The key of `context` is held meanwhile. That cannot end in two builds that wait for each other where what is built
    here is always made of less than what it is built for.

    Args:
        context: The build on whose way it is. What its log is told it is told too.
        derivation: What is wanted.
        inputs: Its inputs, by name.
        build: Makes every output but the log.
        again: Whether it is built although its result is known, as evidence.

    Raises:
        InterruptedBuildError: The user interrupted.
        DisError: The build failed.
    """
    facts: Mapping[str, Any] = {} if derivation.platform == _NO_PLATFORM else context.platform_facts
    key = build_key(derivation, {name: each.object for name, each in inputs.items()}, facts)
    if not again and (known := context.store.chosen(key)) is not None:
        return InnerBuild(known, cached=True)

    def note(holder: "LockHolder") -> None:
        context.log.write(
            f"{derivation.name}: process {holder.pid} on {holder.host} has been building it since {holder.since}"
        )

    with sole_builder(context.store, key, _Interruption(context.cancelled), note):
        if not again and (known := context.store.chosen(key)) is not None:
            return InnerBuild(known, cached=True)
        inner = replace(
            context,
            derivation=derivation,
            inputs=inputs,
            platform_facts=facts,
            log=BuildLog(context.log.write),
            log_files={},
            is_rebuild=again,
        )
        return InnerBuild(_built(inner, key, build), cached=False)


def _built(context: BuildContext, key: Digest, build: Build) -> Realisation:
    context.store.add_derivation(context.derivation.encode())
    context.check_interrupted()
    outputs = dict(build(context))
    context.log.write("done")
    if "log" in context.derivation.outputs:
        outputs["log"] = register_log(context)
    record = build_record(context, key, outputs)
    context.record(record)
    return record
