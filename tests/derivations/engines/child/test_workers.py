"""Engines in processes of their own: what they answer, and every way in which they can fail to."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dis_derivations.engines.child import frames, process, worker_side
from dis_derivations.engines.child.engine import ChildEngine
from dis_derivations.engines.child.environment import worker_environment
from dis_derivations.engines.child.process import Launch, WorkerProcess
from dis_derivations.engines.model_files import ModelEnds
from dis_derivations.engines.protocol import Batching, Progress
from dis_store.errors import BuildError, InterruptedBuildError, UnfitEnvironmentError
from engine_runs import RecordingSink, greedy_request, sampled_request

SCRIPT = Path(__file__).with_name("worker_script.py")
END = 200


def decode(ids: object) -> str:
    return " ".join(map(str, ids)) if isinstance(ids, list | tuple) else ""


class Rig:
    """Starts scripted workers in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.notes: list[str] = []
        shutil.copy(SCRIPT, directory / "worker_script.py")
        shutil.copy(str(frames.__file__), directory / "frames.py")
        shutil.copy(str(worker_side.__file__), directory / "worker_side.py")

    def launch(
        self,
        behaviour: str,
        *,
        patience: float = 20.0,
        interpreter: str = sys.executable,
        declared: dict[str, str] | None = None,
    ) -> Launch:
        # The program takes the behaviour before the descriptors.
        program = self.directory / "worker_script.py"
        runner = self.directory / f"run-{behaviour.replace(' ', '-')}.py"
        runner.write_text(
            f"import sys, runpy\nsys.argv[1:1] = [{behaviour!r}]\n"
            f"runpy.run_path({str(program)!r}, run_name='__main__')\n",
            "utf-8",
        )
        return Launch(
            command=[interpreter, "-s", "-B"],
            program=runner,
            environment=worker_environment(declared or {}, self.directory),
            directory=self.directory,
            patience=patience,
        )

    @contextmanager
    def engine(
        self,
        behaviour: str = "behaves",
        *,
        patience: float = 20.0,
        check: Callable[[], None] = lambda: None,
        declared: dict[str, str] | None = None,
    ) -> Iterator[ChildEngine]:
        started = WorkerProcess(self.launch(behaviour, patience=patience, declared=declared), check)
        self.process = started
        ends = ModelEnds(frozenset({END}), 64, decode)
        child = ChildEngine("scripted", started, ends, self.notes.append)
        try:
            with child:
                child.open("/model", {"one": 1})
                yield child
        finally:
            started.kill()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def ignore(progress: Progress) -> None:
    del progress


def test_an_engine_answers_in_the_order_of_the_requests(rig: Rig) -> None:
    requests = [
        greedy_request("a", [1, 2], max_tokens=3),
        greedy_request("b", [END - 2], max_tokens=9),
        greedy_request("c", [7], max_tokens=9, token_ids=[9]),
    ]
    sink = RecordingSink(("decode",))
    told: list[Progress] = []
    with rig.engine() as engine:
        found = engine.generate(requests, Batching(2), sink, told.append)
        identity = engine.identity()
    assert [(each.id, each.output_token_ids) for each in found] == [
        ("a", (3, 4, 5)),
        ("b", (END - 1, END)),
        ("c", (8, 9)),
    ]
    assert [(each.finish_reason, each.stop_reason, each.text) for each in found] == [
        ("length", None, "3 4 5"),
        ("stop", None, f"{END - 1}"),
        ("stop", 9, "8"),
    ]
    # The third request waits for its group, not for a place.
    assert sink.steps == [
        [("a", 2), ("b", 1)],
        [("a", 1), ("b", 1)],
        [("a", 1)],
        [("c", 1)],
        [("c", 1)],
    ]
    assert sink.chosen == {0: [3, 4, 5], 1: [END - 1, END], 2: [8, 9]}
    assert np.array_equal(sink.rows(0, "decode"), [[3.0, 0.5], [4.0, 0.5], [5.0, 0.5]])
    assert told[-1] == Progress(3, 3, 7)
    assert identity == {"engine": "scripted", "settings": {"one": 1}}
    assert "the model is loaded" in rig.notes


def test_a_stop_text_ends_a_sequence_at_the_token_that_completes_it(rig: Rig) -> None:
    requests = [
        greedy_request("text", [10], max_tokens=9, strings=["13 14"]),
        greedy_request("other", [30], max_tokens=5),
    ]
    with rig.engine() as engine:
        found = engine.generate(requests, Batching(2), RecordingSink(()), ignore)
    assert found[0].output_token_ids == (11, 12, 13, 14)
    assert (found[0].finish_reason, found[0].stop_reason) == ("stop", "13 14")
    assert found[0].text == "11 12 "
    assert found[1].output_token_ids == (31, 32, 33, 34, 35)


def test_a_sequence_ends_with_the_context(rig: Rig) -> None:
    with rig.engine() as engine:
        request = greedy_request("long", [1] * 60, max_tokens=50)
        (found,) = engine.generate([request], Batching(1), RecordingSink(()), ignore)
    assert len(found.output_token_ids) == 4
    assert found.finish_reason == "length"


def test_no_requests_are_answered_without_asking(rig: Rig) -> None:
    with rig.engine("dies while generating") as engine:
        assert engine.generate([], Batching(1), RecordingSink(), ignore) == []


def test_one_worker_generates_as_often_as_it_is_asked(rig: Rig) -> None:
    request = sampled_request("again", [5], max_tokens=2)
    with rig.engine() as engine:
        first, second = (
            engine.generate([request], Batching(1), RecordingSink(()), ignore) for _ in range(2)
        )
    assert first == second


def test_a_worker_has_no_variable_of_its_caller(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "HTTPS_PROXY", "LD_LIBRARY_PATH", "PYTHONPATH", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "/from/outside")
    with rig.engine(declared={"PYTHONHASHSEED": "0", "TZ": "UTC"}) as engine:
        environment = engine.environment()
    variables = environment["variables"]
    assert "/from/outside" not in variables.values()
    # What Python itself adds in the locale C is its own.
    assert set(variables) - {"LC_CTYPE"} == {
        "PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PYTHONHASHSEED", "TZ",
    }  # fmt: skip
    assert environment["directory"] == str(rig.directory)
    # Its two pipes, and the directory in which it looked.
    assert len(environment["descriptors"]) == 3


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("dies", ["ended with exit code 7", "its last line: out of luck"]),
        ("is killed", ["ended by SIGKILL", "memory"]),
        ("maps a file that becomes shorter", ["ended by SIGBUS", "a mapped file"]),
        ("writes garbage", ["a frame begins with"]),
        ("announces a huge header", ["a header of 4294967295 bytes"]),
        ("announces a huge payload", ["a payload of 9223372036854775808 bytes"]),
        ("ends in the middle of a frame", ["ended in the middle"]),
        ("writes its header otherwise", ["canonical form"]),
        ("names a key twice", ["canonical form"]),
        ("speaks another version", [f"version {frames.PROTOCOL + 1} of the protocol"]),
        ("says what nobody knows", ["unknown type 'surprise'"]),
        ("says more than it may", ["with the fields", "secret"]),
        ("speaks out of turn", ["'generated', which is not what comes now"]),
    ],
)
def test_a_worker_that_does_not_come_up_is_told_in_one_error(
    rig: Rig, behaviour: str, said: list[str]
) -> None:
    with pytest.raises(BuildError) as caught, rig.engine(behaviour):
        pass
    assert "the worker of the engine scripted" in caught.value.what
    for text in said:
        assert text in str(caught.value)
    assert_gone(rig)


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("dies while generating", "exit code 3\nits last line: a bug in a kernel"),
        ("fails while generating", "RuntimeError: the kernel said no"),
        ("ends a request for no reason", "request a ended for no known reason"),
        ("ends a request that nobody knows", "ended in a step that chose no token for it"),
        ("captures for a request that nobody knows", "request number 99, which does not run"),
        ("captures less than it says", "4 bytes for 1 rows of 2 numbers of float32"),
        ("captures more rows than tokens", "2 rows of logits for 1 tokens"),
        ("captures numbers of no known format", "numbers of the format 'float8'"),
        ("throws requests out", "lower inference.batching.max_num_seqs"),
        ("uses its cache", "took 3 positions from earlier requests"),
    ],
)
def test_a_generation_that_goes_wrong_is_told_in_one_error(
    rig: Rig, behaviour: str, said: str
) -> None:
    requests = [greedy_request("a", [1, 2], max_tokens=3), greedy_request("b", [4], max_tokens=3)]
    with pytest.raises(BuildError) as caught, rig.engine(behaviour) as engine:
        engine.generate(requests, Batching(2), RecordingSink(()), ignore)
    assert said in f"{caught.value}\n{caught.value.hint}"
    assert_gone(rig)


def test_whoever_is_told_of_a_page_that_could_not_be_read_is_told_how_to_find_the_damage(
    rig: Rig,
) -> None:
    with pytest.raises(BuildError) as caught, rig.engine("maps a file that becomes shorter"):
        pass
    assert caught.value.hint is not None
    assert "dis store verify --all" in caught.value.hint
    assert "/dev/shm" in caught.value.hint  # noqa: S108 - it is only named


@pytest.mark.parametrize("behaviour", ["hangs", "hangs while generating", "closes its pipes"])
def test_a_worker_that_says_nothing_is_ended(
    rig: Rig, behaviour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_GOING_SECONDS", 0.5)
    requests = [greedy_request("a", [1], max_tokens=3)]
    with pytest.raises(BuildError), rig.engine(behaviour, patience=0.5) as engine:
        engine.generate(requests, Batching(1), RecordingSink(()), ignore)
    assert_gone(rig)


def test_a_worker_that_does_not_read_is_ended(rig: Rig) -> None:
    # More than a pipe holds.
    requests = [greedy_request(str(number), [1] * 50, max_tokens=1) for number in range(2000)]
    with pytest.raises(BuildError, match="hangs"), rig.engine("stops reading", patience=0.5) as e:
        e.generate(requests, Batching(1), RecordingSink(()), ignore)
    assert_gone(rig)


def test_a_refusal_of_the_engine_says_that_nothing_is_broken(rig: Rig) -> None:
    with pytest.raises(UnfitEnvironmentError, match="no such model"), rig.engine("refuses"):
        pass
    assert "deep down" in rig.notes


def test_a_worker_that_gave_up_and_is_gone_is_not_spoken_to_again(rig: Rig) -> None:
    with rig.engine("fails while generating") as engine:
        with pytest.raises(BuildError, match="the kernel said no"):
            engine.generate([greedy_request("a", [1])], Batching(1), RecordingSink(()), ignore)
        rig.process.ended()
    assert_gone(rig)


def test_what_a_worker_writes_is_kept_but_not_without_end(rig: Rig) -> None:
    with rig.engine("floods its output") as engine:
        pass
    output = engine.output()
    assert output.startswith(b"first line\n")
    assert output.endswith(b"last line\n")
    assert b"bytes left out" in output
    assert len(output) < 6 << 20


def test_an_interruption_ends_a_worker_that_computes(rig: Rig) -> None:
    asked: list[float] = []

    def check() -> None:
        asked.append(time.monotonic())
        if asked[-1] - asked[0] > 1:
            raise InterruptedBuildError("interrupted")

    with (
        pytest.raises(InterruptedBuildError),
        rig.engine("hangs while generating", check=check) as e,
    ):
        e.generate([greedy_request("a", [1])], Batching(1), RecordingSink(()), ignore)
    assert_gone(rig)


def test_an_interruption_by_the_listener_ends_the_worker(rig: Rig) -> None:
    def interrupt(progress: Progress) -> None:
        raise InterruptedBuildError(f"after {progress.tokens}")

    with pytest.raises(InterruptedBuildError, match="after 1"), rig.engine() as engine:
        engine.generate([greedy_request("a", [1])], Batching(1), RecordingSink(()), interrupt)
    assert_gone(rig)


def test_an_interpreter_that_is_none_is_told(rig: Rig) -> None:
    launch = rig.launch("behaves", interpreter=str(rig.directory / "no-python"))
    with pytest.raises(UnfitEnvironmentError, match="cannot be started"):
        WorkerProcess(launch, lambda: None)


@pytest.mark.parametrize("behaviour", ["behaves", "hangs"])
def test_a_worker_ends_with_dis_however_dis_ends(rig: Rig, behaviour: str, tmp_path: Path) -> None:
    rig.launch(behaviour)
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import sys, os, subprocess, time\n"
        "read, _ = os.pipe(); _, write = os.pipe()\n"
        f"child = subprocess.Popen([sys.executable, {str(tmp_path / f'run-{behaviour}.py')!r}, str(read), str(write)],"
        " pass_fds=(read, write), start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n",
        "utf-8",
    )
    process = subprocess.Popen([sys.executable, str(parent)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as stream:
        pid = int(stream.readline())
    settle(lambda: "run-" in command_of(pid) and is_asleep(pid))
    process.send_signal(signal.SIGKILL)
    process.wait()
    settle(lambda: not command_of(pid))


def assert_gone(rig: Rig) -> None:
    pid = rig.process._process.pid
    assert rig.process._process.poll() is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8")
    except OSError:
        return ""


def is_asleep(pid: int) -> bool:
    """Whether it has come to where it waits, having asked for its end with its parent's."""
    text = Path(f"/proc/{pid}/wchan").read_text("utf-8")
    return text not in {"", "0"}


def settle(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it did not come about")
