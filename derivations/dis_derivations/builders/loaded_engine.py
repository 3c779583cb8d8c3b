"""The engine of a build, loaded when the first requests need it and kept until the build ends."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dis_derivations.builders.closure import (
    CLOSURE_DOCUMENT,
    ENVIRONMENT_DIRECTORY,
    MODEL_DIRECTORY,
)
from dis_derivations.builders.engine_opening import opened_engine
from dis_derivations.engines.protocol import Batching, Engine
from dis_derivations.realisation.building import BuildContext
from dis_derivations.realisation.events import Measure
from dis_store import strict_json
from dis_store.contents import changed
from dis_store.digest import Digest
from dis_store.environment import reading
from dis_store.hashing import hash_descriptor

if TYPE_CHECKING:
    from dis_derivations.realisation.gauge import Gauge
    from dis_store import Store


@dataclass(frozen=True)
class Loaded:
    """An engine with a model in it.

    Attributes:
        engine: Ready to generate.
        integrity: The record of the check of the model's files.
        seconds: What checking and loading took.
    """

    engine: Engine
    integrity: list[dict[str, Any]]
    seconds: float


@dataclass
class EngineOnDemand:
    """An engine that is loaded once, by the first who asks for it.

    Attributes:
        document: `closure.json`.
        batching: How many sequences share a step.
    """

    document: Mapping[str, Any]
    batching: Batching
    _load: Callable[[], Loaded]
    _loaded: Loaded | None = field(default=None, init=False)

    @property
    def is_loaded(self) -> bool:
        """Whether somebody has asked for it."""
        return self._loaded is not None

    def loaded(self) -> Loaded:
        """Return it.

        Raises:
            IntegrityError: A file of the model is not what the closure says.
            UnfitEnvironmentError: The engine cannot be had here, or cannot run this model.
            BuildError: The engine failed.
        """
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded


@contextmanager
def engine_on_demand(context: BuildContext, batching: Batching) -> Iterator[EngineOnDemand]:
    """Give the engine of a build's closure; if it was loaded, it ends with the block."""
    closure = context.inputs["closure"].object
    document = strict_json.decode(
        context.store.read_bytes(closure, CLOSURE_DOCUMENT), name=CLOSURE_DOCUMENT
    )
    with ExitStack() as stack:

        def load() -> Loaded:
            began = context.log.seconds()
            files, integrity = verified_model(
                context.store, closure, context.gauge, context.check_interrupted
            )
            engine = stack.enter_context(opened_engine(context, document, files, batching))
            return Loaded(engine, integrity, context.log.seconds() - began)

        yield EngineOnDemand(document, batching, load)


def verified_model(
    store: "Store",
    closure: Digest,
    gauge_of: Callable[[str, Measure], "Gauge"],
    check_interrupted: Callable[[], None],
) -> tuple[dict[str, Path], list[dict[str, Any]]]:
    """Return the model's files by name, and the record of their check; those of an environment are checked as well.

    Args:
        store: Has the closure.
        closure: What an engine is to load.
        gauge_of: Makes the gauge that is told how many bytes were read.
        check_interrupted: Asked all the while; raises to stop.

    Raises:
        IntegrityError: A file is not what the closure says.
    """
    from blake3 import blake3

    places = (f"{MODEL_DIRECTORY}/", f"{ENVIRONMENT_DIRECTORY}/")
    parts = [file for file in store.files(closure) if file.path.startswith(places)]
    gauge = gauge_of("verifying the model", Measure("bytes", 0, sum(file.size for file in parts)))

    def count(amount: int) -> None:
        check_interrupted()
        gauge.add(amount)

    files: dict[str, Path] = {}
    record: list[dict[str, Any]] = []
    for file in parts:
        check_interrupted()
        try:
            with reading(file.real), file.real.open("rb") as opened:
                found = hash_descriptor(opened.fileno(), threads=blake3.AUTO, on_bytes=count)[1]
        except FileNotFoundError as error:
            raise changed(file, "it is not there any more") from error
        if found != file.blake3:
            raise changed(file, f"its BLAKE3 is {found}, and must be {file.blake3}")
        if not file.path.startswith(places[0]):
            continue  # of an environment, which has thousands, none is named
        name = file.path.removeprefix(f"{MODEL_DIRECTORY}/")
        files[name] = file.real
        record.append(
            {"path": name, "blake3": str(file.blake3), "size": file.size, "verified": True}
        )
    return files, record
