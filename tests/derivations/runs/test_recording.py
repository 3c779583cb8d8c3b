"""Recording what an engine captures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dis_derivations.artifacts.safetensors_header import read_header
from dis_derivations.runs.bundle import LOGITS_FILE
from dis_derivations.runs.recording import ResultRecorder
from dis_store import Store

ROWS = np.array([[1.5, -2.0, 0.25], [-3.0, -1.0, -1.0]])
CHOSEN = [2, 0]  # by chance: neither has the largest logit of its row


def plan(**logits: Any) -> dict[str, Any]:
    defaults = {"scope": "full", "dtype": "float64", "prefill": False, "decode": True}
    return {"logits": {**defaults, **logits}, "engine_trace": False}


def recorded(store: Store, capture: dict[str, Any]) -> bytes:
    """Record `ROWS`; return the numbers that were written."""
    with ResultRecorder(capture) as recorder, store.new_tree() as tree:
        for row, token in zip(ROWS, CHOSEN, strict=True):
            recorder.logits(0, "decode", row[np.newaxis], chosen=[token])
        recorder.write_captures(tree)
        path: Path = store.file_path(tree.register(), LOGITS_FILE)
    return path.read_bytes()[read_header(path).data_start :]


def test_the_full_scope_keeps_every_logit(store: Store) -> None:
    assert np.array_equal(np.frombuffer(recorded(store, plan()), "<f8"), ROWS.ravel())


def test_chosen_only_keeps_the_logit_of_each_chosen_token(store: Store) -> None:
    kept = np.frombuffer(recorded(store, plan(scope="chosen_only")), "<f8")
    assert kept.tolist() == [0.25, -3.0]


def test_chosen_only_takes_no_rows_from_which_nothing_was_chosen() -> None:
    with (
        ResultRecorder(plan(scope="chosen_only")) as recorder,
        pytest.raises(ValueError, match="prefill"),
    ):
        recorder.logits(0, "prefill", ROWS)


def test_a_phase_is_wanted_as_the_plan_says() -> None:
    with ResultRecorder(plan(prefill=True, decode=False)) as recorder:
        assert (recorder.wants("prefill"), recorder.wants("decode")) == (True, False)
    with ResultRecorder({"logits": None, "engine_trace": True}) as recorder:
        assert not recorder.wants("decode")
