"""Positions from earlier requests: counted for an experiment, and a fault for anybody else."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dis_derivations.engines.child import frames, worker_side
from dis_derivations.engines.child.engine import ChildEngine
from dis_derivations.engines.child.environment import worker_environment
from dis_derivations.engines.child.process import Launch, WorkerProcess
from dis_derivations.engines.model_files import ModelEnds
from dis_derivations.engines.protocol import Batching
from dis_derivations.engines.vllm.prefix_cache import WARM_CACHE, CachingChild
from dis_derivations.runs.bundle import EXPERIMENT
from dis_store.errors import BuildError
from engine_runs import RecordingSink, greedy_request

SCRIPT = Path(__file__).parents[1] / "child/worker_script.py"
REQUESTS = [greedy_request("a", [1, 2], max_tokens=3), greedy_request("b", [4], max_tokens=3)]


@contextmanager
def opened(place: Path, behaviour: str, kind: type[ChildEngine]) -> Iterator[ChildEngine]:
    for source in (SCRIPT, Path(str(frames.__file__)), Path(str(worker_side.__file__))):
        shutil.copy(source, place / source.name)
    runner = place / "run.py"
    runner.write_text(
        f"import sys, runpy\nsys.argv[1:1] = [{behaviour!r}]\n"
        f"runpy.run_path({str(place / SCRIPT.name)!r}, run_name='__main__')\n",
        "utf-8",
    )
    launch = Launch(
        command=[sys.executable, "-s", "-B"],
        program=runner,
        environment=worker_environment({}, place),
        directory=place,
        patience=20.0,
    )
    process = WorkerProcess(launch, lambda: None)
    ends = ModelEnds(frozenset({200}), 64, lambda ids: " ".join(map(str, ids)))
    child = kind("scripted", process, ends, lambda _: None)
    try:
        with child:
            child.open("/model", {})
            yield child
    finally:
        process.kill()


def generate(child: ChildEngine) -> int:
    return len(child.generate(REQUESTS, Batching(2), RecordingSink(()), lambda _: None))


def test_an_experiment_counts_what_came_from_the_cache(tmp_path: Path) -> None:
    with opened(tmp_path, "uses its cache", CachingChild) as child:
        assert child.experiment() == {EXPERIMENT: {"kind": WARM_CACHE, "cached_tokens": 0}}
        assert generate(child) == len(REQUESTS)
        assert child.experiment() == {EXPERIMENT: {"kind": WARM_CACHE, "cached_tokens": 3}}


def test_an_ordinary_run_fails_where_something_came_from_the_cache(tmp_path: Path) -> None:
    with (
        pytest.raises(BuildError, match="took 3 positions from earlier requests"),
        opened(tmp_path, "uses its cache", ChildEngine) as child,
    ):
        generate(child)


def test_an_experiment_still_fails_where_requests_are_computed_twice(tmp_path: Path) -> None:
    with (
        pytest.raises(BuildError, match="threw requests out"),
        opened(tmp_path, "throws requests out", CachingChild) as child,
    ):
        generate(child)
