"""Builds inside the process without a network, one at a time, for who is at the other end of its channel."""

import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.confinement.channel import Channel
from dis_derivations.confinement.wire import failure_as_json, files_as_json, files_of, input_of
from dis_derivations.realisation.events import Measure
from dis_store.errors import DisError, UnfitEnvironmentError

if TYPE_CHECKING:
    from dis_derivations.realisation.building import BuildContext
    from dis_store import Realisation, Store, TreeWriter

_Order = tuple[dict[str, Any], threading.Event]


def serve(channel: Channel) -> None:
    """Make builds until the other end says that it was the last, or is gone."""
    orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, orders), daemon=True).start()
    with ExitStack() as stack:
        store: Store | None = None
        while (order := orders.get()) is not None:
            document, stop = order
            try:
                store = store or stack.enter_context(_opened(document))
                answer = _built(_context(store, document, stop, channel))
            except DisError as failure:
                answer = {"message": "failed", "failure": failure_as_json(failure)}
            except Exception:  # noqa: BLE001 - a fault of dis, which is told where it can be shown
                answer = {"message": "broken", "trace": traceback.format_exc()}
            channel.send(answer)


def _listen(channel: Channel, orders: "queue.SimpleQueue[_Order | None]") -> None:
    """Take messages while builds go on."""
    stop = threading.Event()
    while (message := channel.receive()) is not None:
        match message["message"]:
            case "build":
                stop = threading.Event()
                orders.put((message["order"], stop))
            case "stop":
                stop.set()
            case "end":
                orders.put(None)
                return
    # Whoever wanted the build has gone without a word, and what was started for it ends with it.
    os.killpg(0, signal.SIGKILL)


def _opened(order: Mapping[str, Any]) -> "Store":
    from dis_store import Store
    from dis_store.patience import Patience

    return Store.open(Path(order["store"]), create=False, patience=Patience(order["patience"]))


def _built(context: "BuildContext") -> dict[str, Any]:
    from dis_derivations.builders import standard_builders

    outputs = standard_builders()[context.derivation.builder].build(context)
    return {
        "message": "built",
        "outputs": dict(outputs),
        "log_files": files_as_json(context.log_files),
    }


def _context(
    store: "Store", order: Mapping[str, Any], stop: threading.Event, channel: Channel
) -> "BuildContext":
    from dis_derivations.graph.derivation import Derivation
    from dis_derivations.realisation.building import BuildContext, BuildLog

    def report(text: str, measures: tuple[Measure, ...]) -> None:
        amounts = [[each.unit, each.done, each.total] for each in measures]
        channel.send({"message": "progress", "text": text, "measures": amounts})

    def keep_record(realisation: "Realisation") -> None:
        channel.send({"message": "record", "realisation": realisation.encode().decode()})

    return BuildContext(
        store=store,
        derivation=Derivation.decode(order["derivation"].encode()),
        inputs={name: input_of(each) for name, each in order["inputs"].items()},
        platform_facts=order["platform_facts"],
        sources=_NoSources(),
        hints=order["hints"],
        observed={
            path: data
            for path, data in files_of(order["observed"]).items()
            if isinstance(data, bytes)
        },
        log=BuildLog(lambda line: channel.send({"message": "log", "line": line})),
        log_files={},
        cancelled=stop.is_set,
        report=report,
        is_rebuild=order["is_rebuild"],
        keep_record=keep_record,
    )


class _NoSources:
    """A `SourceSet` of a build that may fetch nothing."""

    def fetch(
        self,
        kind: str,
        files: Sequence[Mapping[str, Any]],
        writer: "TreeWriter",
        check_interrupted: Callable[[], None],
        on_bytes: Callable[[int], None] = lambda _amount: None,
    ) -> None:
        """Refuse.

        Raises:
            UnfitEnvironmentError: Always.
        """
        del files, writer, check_interrupted, on_bytes
        raise UnfitEnvironmentError(
            f"the {kind} cannot be fetched where there is no network",
            cause="only fixed outputs are fetched, and this build is none",
        )
