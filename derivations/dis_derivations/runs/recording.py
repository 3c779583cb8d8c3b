"""Recording what an engine captures while it runs, in bounded memory, as files of the results."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dis_derivations.artifacts.safetensors_writer import SafetensorsWriter
from dis_derivations.engines.protocol import Phase
from dis_derivations.runs.bundle import ACTIVATIONS_FILE, LOGITS_FILE, TRACE_FILE
from dis_store import canonical_json
from dis_store.errors import UnfitEnvironmentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dis_store import TreeWriter

CHOSEN_ONLY = "chosen_only"
# The manifest's names of number formats, as safetensors calls them.
DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}


# Wide enough for the bits of every format that engines compute hidden states in, but doubles.
_ACTIVATIONS_DTYPE = "F32"


def tensor_name(index: int, phase: Phase, layer: int | None = None) -> str:
    """Return the name of the tensor that holds logits of request number `index`, or what a layer put out."""
    named = f"{index:05d}.{phase}"
    return named if layer is None else f"{named}.layer.{layer:03d}"


def renumbered(name: str, *, first: int) -> str:
    """Return what the tensor `name` is called when the requests that it was numbered among begin at number `first`."""
    index, _, rest = name.partition(".")
    return f"{int(index) + first:05d}.{rest}"


class ResultRecorder:
    """A `CaptureSink` that writes the capture files of the results; a context manager.

    Args:
        capture: The `capture` argument of the generation: `logits` (`scope`, `dtype`, `prefill`,
            `decode`) or None, `engine_trace`, and `activations` (`layers`) where there are any.

    Raises:
        UnfitEnvironmentError: The capture cannot be made in the number format asked for.
    """

    def __init__(self, capture: Mapping[str, Any]) -> None:
        self._logits = capture["logits"]
        self._trace = bool(capture["engine_trace"])
        self.layers: tuple[int, ...] = tuple(capture.get("activations", {}).get("layers", ()))
        self._writer: SafetensorsWriter | None = None
        self._states = SafetensorsWriter(_ACTIVATIONS_DTYPE) if self.layers else None
        self.steps: list[dict[str, Any]] = []
        if self._logits is not None:
            self._writer = SafetensorsWriter(_safetensors_dtype(self._logits["dtype"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for writer in (self._writer, self._states):
            if writer is not None:
                writer.close()

    def wants(self, phase: Phase) -> bool:
        """Return whether logits of this phase are captured."""
        return self._logits is not None and bool(self._logits[phase])

    def logits(
        self,
        index: int,
        phase: Phase,
        rows: "NDArray[np.float64]",
        *,
        chosen: Sequence[int] | None = None,
    ) -> None:
        """Take the next rows of request number `index`: shape [positions, vocabulary].

        With scope `chosen_only` a row is kept as the logit of the token that was chosen from it.
        """
        if self._writer is None:
            return
        if self._logits["scope"] == CHOSEN_ONLY:
            if chosen is None:
                raise ValueError(f"no tokens were chosen in the phase {phase}")
            rows = rows[range(len(rows)), list(chosen)]
        self._writer.append(tensor_name(index, phase), rows)

    def activations(
        self, index: int, phase: Phase, layer: int, rows: "NDArray[np.float64]"
    ) -> None:
        """Take the next rows of what a layer puts out: shape [positions, width]."""
        if self._states is not None:
            self._states.append(tensor_name(index, phase, layer), rows)

    def step(self, computed: Sequence[tuple[str, int]]) -> None:
        """Take one engine step."""
        self.steps.append(
            {
                "step": len(self.steps),
                "requests": [{"id": request, "tokens": tokens} for request, tokens in computed],
            }
        )

    def write_captures(self, tree: "TreeWriter") -> None:
        """Write the files of what was captured into the results."""
        if self._writer is not None:
            with tree.create(LOGITS_FILE) as file:
                self._writer.finish(file.write)
        if self._states is not None:
            with tree.create(ACTIVATIONS_FILE) as file:
                self._states.finish(file.write)
        if self._trace:
            tree.write_bytes(
                TRACE_FILE, b"".join(canonical_json.encode(step) + b"\n" for step in self.steps)
            )


def _safetensors_dtype(name: str) -> str:
    if name not in DTYPES:
        raise UnfitEnvironmentError(
            f"logits cannot be captured as {name!r}",
            cause=f"capture.logits.dtype is one of {', '.join(DTYPES)}",
        )
    return DTYPES[name]
