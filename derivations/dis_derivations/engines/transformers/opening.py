"""Starting transformers: its worker in the right environment, the model in it."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from dis_derivations.engines.child.adapter import Adaptation, EngineAdapter, adapted_engine
from dis_derivations.engines.child.agreement import check_agreement
from dis_derivations.engines.child.launching import Surroundings, WorkerProgram
from dis_derivations.engines.model_files import model_ends, read_config, vocabulary_size
from dis_derivations.engines.reference import drawing, elementary_functions, fixed_point
from dis_derivations.engines.transformers import portable_blake3
from dis_derivations.engines.transformers.settings import engine_arguments

NUMERICS_VERSION = 2
"""Raised whenever what dis tells transformers changes, and with it may bits."""

# Beside it lies what it samples with: the reference engine's own rule.
_PROGRAM = WorkerProgram(
    Path(__file__).with_name("worker.py"),
    tuple(
        Path(str(each.__file__))
        for each in (fixed_point, elementary_functions, drawing, portable_blake3)
    ),
)


def open_transformers(
    spec: Mapping[str, Any], files: Mapping[str, Path], surroundings: Surroundings
) -> AbstractContextManager[EngineAdapter]:
    """Load a model into transformers, as `adapted_engine` does.

    Raises:
        InvalidInputError: A file of the model is missing or malformed.
    """
    config = read_config(files)
    ends = model_ends(files, config, spec["settings"].get("max_model_len"))
    used = {"end_token_ids": sorted(ends.end_token_ids), "max_model_len": ends.context}
    adaptation = Adaptation(
        name="transformers",
        program=_PROGRAM,
        vocabulary=vocabulary_size(config),
        ends=ends,
        settings={
            "arguments": engine_arguments(spec["settings"]),
            "variables": sorted(spec["variables"]),
        },
        identity=lambda reported: {
            "engine": "transformers",
            "numerics": spec["numerics"],
            **reported,
            "settings": {**reported["settings"], **used},
        },
        check=partial(check_agreement, "transformers", surroundings.platform),
        alone=True,
    )
    return adapted_engine(adaptation, spec, files, surroundings)
