"""Builders whose builds are made without a network, and fail when they try to use it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dis_derivations.confinement.attempt import Attempt
from dis_derivations.confinement.confined_process import ConfinedProcess, Ending, Listener
from dis_derivations.confinement.errors import NetworkAttemptError
from dis_derivations.confinement.wire import failure_of, files_of, order_of
from dis_derivations.realisation.events import Measure
from dis_derivations.realisation.recorded_user import recorded_user
from dis_derivations.runs.run_directory import RUN_LOG
from dis_store import Realisation, canonical_json, strict_json
from dis_store.digest import Digest
from dis_store.errors import BuildError, DisError

if TYPE_CHECKING:
    from dis_derivations.realisation.building import BuildContext, Builder

NETWORK_DOCUMENT = "network.json"


def confined(builders: "Mapping[str, Builder]", process: ConfinedProcess) -> "dict[str, Builder]":
    """Return the same builders, of which those that fetch nothing make their builds in `process`.

    A builder that fetches has a true attribute `fetches`.
    """
    return {
        name: builder
        if getattr(builder, "fetches", False)
        else ConfinedBuilder(builder.version, process)
        for name, builder in builders.items()
    }


@dataclass(frozen=True)
class ConfinedBuilder:
    """Makes builds as the builder of the same name does, in a process without network.

    Attributes:
        version: Of that builder.
        process: Where.
    """

    version: int
    process: ConfinedProcess

    def build(self, context: "BuildContext") -> Mapping[str, Digest]:
        """Have the build made.

        Raises:
            NetworkAttemptError: It tried to use the network.
            DisError: As the builder.
        """
        process = self.process
        context.log.write(f"network: denied by {process.enforced_by}")
        with process.turn(context.check_interrupted):
            ending = process.build(order_of(context), _listener(context))
        for attempt in ending.attempts:
            context.log.write(f"network: attempt to reach {attempt}, denied")
        _check(context, ending, process)
        context.log.write(f"network: no attempt, recorded by {process.recorded_by}")
        return _take(context, ending, process)


def _listener(context: "BuildContext") -> Listener:
    def report(text: str, measures: list[list[Any]]) -> None:
        context.report(text, tuple(Measure(*measure) for measure in measures))

    def record(document: str) -> None:
        """Keep the record of a build that was made on the way; it was the work of who runs this process."""
        made = Realisation.decode(document.encode(), name="the record of a build")
        context.store.protect_all(made.outputs.values())
        context.record(replace(made, user=recorded_user()))

    return Listener(context.log.write, report, context.cancelled, record)


def _check(context: "BuildContext", ending: Ending, process: ConfinedProcess) -> None:
    """Raise what went wrong, the attempt to use the network first, which may be the reason for the rest."""
    name, message = context.derivation.name, ending.message
    failure: DisError | None = None
    if message is None:
        failure = BuildError(
            f"the process that built {name} ended before its build",
            cause=f"{_end_of(ending.code)}; it ran without network, by {process.enforced_by}",
        )
    elif message["message"] == "failed":
        failure = failure_of(message["failure"])
    if ending.attempts:
        raise _forbidden(name, ending.attempts, process) from failure
    if failure is not None:
        raise failure
    if message is not None and message["message"] != "built":
        # A fault of dis; the same as when it happens in this process.
        raise RuntimeError(message.get("trace", message["message"]))


def _forbidden(
    name: str, attempts: tuple[Attempt, ...], process: ConfinedProcess
) -> NetworkAttemptError:
    return NetworkAttemptError(
        f"the build of {name} tried to use the network, which the manifest forbids",
        cause="\n".join(
            [f"denied by {process.enforced_by}: {attempts[0]}", *map(str, attempts[1:])]
        ),
        hint="if it is meant to use the network, say so: --set runtime.network_policy=online_allowed",
    )


def _end_of(code: int | None) -> str:
    if code is None:
        return "it said nothing"
    return f"it was ended by signal {-code}" if code < 0 else f"its exit code was {code}"


def _take(
    context: "BuildContext", ending: Ending, process: ConfinedProcess
) -> Mapping[str, Digest]:
    """Return the outputs, which are kept from now on by this process, and add the record of the network to the log."""
    message = ending.message or {}
    outputs = {name: Digest(digest) for name, digest in message["outputs"].items()}
    if not context.store.protect_all(outputs.values()):
        raise BuildError(
            f"the process that built {context.derivation.name} made objects that are not in the store"
        )
    record = {
        "policy": "offline_required",
        "enforced_by": process.enforced_by,
        "recorded_by": process.recorded_by,
        "attempts": 0,
    }
    files = files_of(message["log_files"])
    files[NETWORK_DOCUMENT] = canonical_json.encode({"format": 1, **record})
    if isinstance(log := files.get(RUN_LOG), bytes):
        files[RUN_LOG] = with_network(log, record)
    context.log_files.update(files)
    return outputs


def with_network(log: bytes, record: Mapping[str, Any]) -> bytes:
    """Return the log of a run with what is known of its network among what controls its results."""
    document = strict_json.decode(log, name=RUN_LOG)
    document.setdefault("determinism_controls", {})["network"] = dict(record)
    return canonical_json.encode(document)
