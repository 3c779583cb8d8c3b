"""Starting the mock engine in a worker, as engines that are no part of dis are started."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from dis_derivations.engines.child.adapter import Adaptation, EngineAdapter, adapted_engine
from dis_derivations.engines.child.launching import Surroundings, WorkerProgram
from dis_derivations.engines.mock import answers
from dis_derivations.engines.mock.engine import open_mock_engine
from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.reference import scheduling

PROGRAM = WorkerProgram(
    Path(__file__).with_name("worker.py"),
    (Path(str(answers.__file__)), Path(str(scheduling.__file__))),
)


def open_mock_worker(
    spec: Mapping[str, Any],
    files: Mapping[str, Path],
    batching: Batching,
    surroundings: Surroundings,
) -> AbstractContextManager[EngineAdapter]:
    """Start the mock engine in a worker, as `adapted_engine` does.

    Raises:
        InvalidInputError: A file of the model is missing or malformed.
    """
    told = open_mock_engine(files, max_model_len=spec["settings"].get("max_model_len"))
    settings = {
        "vocabulary": told.vocabulary,
        "max_num_batched_tokens": batching.max_num_batched_tokens,
    }
    adaptation = Adaptation(
        name="mock",
        program=PROGRAM,
        vocabulary=told.vocabulary,
        ends=told.ends,
        settings=settings,
        identity=lambda _: told.identity(),  # where it runs changes no bit
    )
    return adapted_engine(adaptation, spec, files, surroundings)
