"""Workers in containers of a pinned image, in a real Docker: what they may, what they answer, and how they end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpoints import CheckpointShape, write_checkpoint
from dis_derivations.builders.closure import MODEL_DIRECTORY
from dis_derivations.engines.child.container_launching import container_launch
from dis_derivations.engines.child.engine import ChildEngine
from dis_derivations.engines.child.launching import (
    ContainerSource,
    Surroundings,
    WorkerProgram,
)
from dis_derivations.engines.child.opening import opened_child
from dis_derivations.engines.mock.engine import open_mock_engine
from dis_derivations.engines.mock.opening import open_mock_worker
from dis_derivations.engines.model_files import ModelEnds
from dis_derivations.engines.protocol import Batching
from dis_derivations.environments.interpreter import probe_interpreter
from dis_derivations.images.container import SCRATCH, made_container
from dis_derivations.images.docker_engine import DockerEngine
from dis_derivations.images.from_environment import image_from_environment
from dis_derivations.images.leftover_containers import labels, remove_leftovers
from dis_derivations.images.stored_image import read_stored
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import (
    BuildError,
    IntegrityError,
    InterruptedBuildError,
    UnfitEnvironmentError,
)
from docker_engine import docker_engine
from engine_runs import RecordingSink, greedy_request

PRYING = WorkerProgram(Path(__file__).with_name("prying_worker.py"))
ENDS = ModelEnds(frozenset(), 64, lambda ids: " ".join(map(str, ids)))
SPEC = {"name": "mock", "numerics": 2, "settings": {}, "variables": {"TZ": "UTC", "ONE": "1"}}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_engine(tmp_path_factory.mktemp("d")) as found:
        yield found


@pytest.fixture
def engine(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerEngine]:
    monkeypatch.setenv("DOCKER_HOST", address)
    with DockerEngine.connect() as found:
        yield found


class Bench:
    """A store with a closure of a tiny model, and with the image that its engine is to run in."""

    def __init__(self, store: Store, files: Mapping[str, Path]) -> None:
        self.store = store
        self.files = files
        self.notes: list[str] = []
        self.output = b""
        with store.new_tree() as tree:
            tree.write_bytes("hello.py", b"WORD = 'hello'\n")
            environment = tree.register()
        self.image = read_stored(
            store, image_from_environment(store, environment, Path(sys.executable)).object
        )
        with store.new_tree() as tree:
            for name, path in files.items():
                tree.write_bytes(name, path.read_bytes())
            model = tree.register()
        with store.new_tree() as tree:
            for name in files:
                tree.reference(f"{MODEL_DIRECTORY}/{name}", model, name)
            tree.reference("image", self.image.object)
            self.closure = tree.register()
        self.model = model

    def surroundings(
        self,
        facts: Mapping[str, str] | None = None,
        check: Callable[[], None] = lambda: None,
        environment: Digest | None = None,
    ) -> Surroundings:
        def keep(output: bytes) -> None:
            self.output = output

        return Surroundings(
            interpreter=None,
            environment=None,
            platform={"class": "any", "facts": {"cpu": {"threads": 3}}},
            patience=60,
            check=check,
            note=self.notes.append,
            keep_output=keep,
            facts=facts,
            container=ContainerSource(
                self.store, self.image, self.closure, MODEL_DIRECTORY, environment
            ),
        )

    @contextmanager
    def prying(self, settings: Mapping[str, Any], **options: Any) -> Iterator[ChildEngine]:
        """Run the worker that looks around."""
        with opened_child(
            "prying", PRYING, SPEC, self.files, ENDS, self.surroundings(**options)
        ) as (child, model):
            child.open(model, settings)
            yield child


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    place = tmp_path_factory.mktemp("bench")
    files = write_checkpoint(place / "model", CheckpointShape())
    with Store.open(place / "store") as store:
        yield Bench(store, files)


def containers(engine: DockerEngine) -> list[Any]:
    return list(engine.client.containers(all=True))


def test_a_worker_is_alone_and_may_do_nothing(bench: Bench, engine: DockerEngine) -> None:
    with bench.prying({}) as child:
        (running,) = containers(engine)
        assert running["Labels"]["dev.dis.container"] == "1"
        seen = child.environment()
    assert seen["uid"] == 65534
    assert set(seen["capabilities"]) == {"0" * 16}
    assert seen["no_new_privileges"] == "1"
    assert seen["interfaces"] == ["lo"]
    assert seen["connect"] is not None
    assert seen["home"] is None
    for place in ("root", "model", "removal", "program"):
        assert seen[place] == "OSError", place
    assert seen["shared"] == 1 << 30
    assert containers(engine) == []


def test_it_sees_the_closure_where_it_lies_in_the_store_and_nothing_else(
    bench: Bench, engine: DockerEngine
) -> None:
    with bench.prying({}) as child:
        seen = child.environment()
    assert set(seen["files"]) == set(bench.files)
    assert seen["config"]["vocab_size"] == CheckpointShape().vocabulary
    # The closure, the model, and the worker's own program; not the image, which it runs in.
    assert len(seen["objects"]) == 3
    assert {bench.closure, bench.model} < set(seen["objects"])
    assert bench.image.object not in seen["objects"]


def test_its_variables_are_those_of_the_image_and_of_the_closure(
    bench: Bench, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    with bench.prying({}) as child:
        seen = child.environment()
    variables = seen["variables"]
    assert (variables["ONE"], variables["OMP_NUM_THREADS"]) == ("1", "3")
    assert (variables["HOME"], variables["PYTHONPATH"]) == (SCRATCH, "/dis/environment")
    assert "HF_TOKEN" not in variables
    assert seen["modules"] == ["hello"]


def test_a_worker_for_accelerators_asks_docker_for_all_of_them(
    bench: Bench, engine: DockerEngine
) -> None:
    cuda = replace(bench.surroundings(), platform={"class": "cuda", "facts": {}})
    assert cuda.container is not None
    for place, expected in ((cuda, [["gpu"]]), (bench.surroundings(), None)):
        launch = container_launch(PRYING, SPEC, place, cuda.container)
        with made_container(bench.store, engine, bench.image, launch.command) as name:
            asked = engine.client.inspect_container(name)["HostConfig"]["DeviceRequests"]
        assert (asked and asked[0]["Capabilities"]) == expected


def test_what_libraries_print_is_no_message(bench: Bench, engine: DockerEngine) -> None:
    with bench.prying({"prints": True}) as child:
        assert child.environment()["input"] == ""
    assert bench.output == b"printed by Python\nwritten past it\nprinted by a child\n"


def test_the_mock_engine_answers_there_what_it_answers_in_dis(
    bench: Bench, engine: DockerEngine
) -> None:
    requests = [greedy_request(str(n), range(n + 1), max_tokens=40) for n in range(20)]
    here, there, batching = RecordingSink(), RecordingSink(), Batching(4, 16)
    expected = open_mock_engine(bench.files).generate(requests, batching, here, lambda _: None)
    with open_mock_worker(SPEC, bench.files, batching, bench.surroundings()) as worker:
        assert worker.generate(requests, batching, there, lambda _: None) == expected
    assert there.steps == here.steps
    assert f"container of the image {bench.image.id}" in " ".join(bench.notes)
    for number in range(20):
        assert (there.rows(number, "decode") == here.rows(number, "decode")).all()


def test_a_pinned_environment_is_imported_from_and_not_what_the_image_brings(
    bench: Bench, engine: DockerEngine
) -> None:
    document = {
        "kind": "environment", "format": 1, "python": "3", "packages": [], "tags": [],
        "import_paths": ["more"], "ignored": [],
    }  # fmt: skip
    with bench.store.new_tree() as tree:
        tree.write_bytes("environment.json", json.dumps(document).encode())
        tree.write_bytes("site-packages/more/extra.py", b"")
        environment = tree.register()
    with bench.store.new_tree() as tree:
        tree.reference(MODEL_DIRECTORY, bench.model)
        tree.reference("environment", environment)
        closure = tree.register()
    place = bench.surroundings(environment=environment)
    assert place.container is not None
    source = replace(place.container, closure=closure)
    with opened_child(
        "prying", PRYING, SPEC, bench.files, ENDS, replace(place, container=source)
    ) as (child, model):
        child.open(model, {})
        seen = child.environment()
    assert seen["modules"] == []
    assert str(environment) in seen["variables"]["DIS_SITE_PACKAGES"]
    assert seen["variables"]["PATH"] == "/dis/python/bin"


def test_what_tried_to_reach_a_network_is_counted_and_what_stayed_at_home_is_not(
    bench: Bench, engine: DockerEngine
) -> None:
    told: list[int] = []
    for settings in ({}, {"stays": True}):
        place = replace(bench.surroundings(), tell_attempts=told.append)
        with opened_child("prying", PRYING, SPEC, bench.files, ENDS, place) as (child, model):
            child.open(model, settings)
    assert told[0] > 0
    assert told[1] == 0


# What is not run


def test_another_image_than_the_pinned_one_runs_nothing(
    bench: Bench, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import docker

    with bench.prying({}):
        pass  # the image is loaded now
    started: list[str] = []
    evil = f"sha256:{'e' * 64}"
    monkeypatch.setattr(docker.APIClient, "start", lambda _, name: started.append(name))
    monkeypatch.setattr(docker.APIClient, "inspect_image", lambda *_: {"Id": evil})
    with pytest.raises(IntegrityError, match="another image"), bench.prying({}):
        pass
    monkeypatch.undo()
    monkeypatch.setenv("DOCKER_HOST", engine.client.base_url.replace("http+docker", "unix"))
    assert started == []
    assert containers(engine) == []


def test_a_container_of_another_image_is_never_started(
    bench: Bench, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import docker

    started: list[str] = []
    evil = {"Image": f"sha256:{'e' * 64}"}
    monkeypatch.setattr(docker.APIClient, "start", lambda _, name: started.append(name))
    monkeypatch.setattr(docker.APIClient, "inspect_container", lambda *_: evil)
    with pytest.raises(IntegrityError, match="another image"), bench.prying({}):
        pass
    assert started == []
    assert containers(engine) == []


def test_an_interpreter_that_the_label_did_not_tell_of_is_refused(
    bench: Bench, engine: DockerEngine
) -> None:
    true = probe_interpreter(Path(sys.executable)).facts
    with bench.prying({}, facts=true):
        pass
    with (
        pytest.raises(BuildError, match="another interpreter than it was told"),
        bench.prying({}, facts={**true, "libc": "glibc 1.0"}),
    ):
        pass
    assert containers(engine) == []


def test_a_docker_of_another_machine_is_refused(
    bench: Bench, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("another\n", "ascii")
    monkeypatch.setattr("dis_derivations.engines.child.opening._BOOT", boot)
    with pytest.raises(UnfitEnvironmentError, match="another machine"), bench.prying({}):
        pass
    assert containers(engine) == []


def test_without_docker_it_is_said_what_is_missing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    with pytest.raises(UnfitEnvironmentError, match="no Docker engine answers"), bench.prying({}):
        pass


# How it ends


@pytest.mark.parametrize(
    ("code", "said"),
    [(7, "exit code 7"), (135, "ended by SIGBUS"), (137, "ended by SIGKILL")],
)
def test_how_a_worker_ended_is_told(
    bench: Bench, engine: DockerEngine, code: int, said: str
) -> None:
    with pytest.raises(BuildError, match="the worker of the engine prying ended") as caught:  # noqa: SIM117 - one by one
        with bench.prying({"exit": code}):
            pass
    assert said in str(caught.value.cause)
    assert containers(engine) == []


def test_an_interruption_ends_the_container(bench: Bench, engine: DockerEngine) -> None:
    def interrupt() -> None:
        if "it hangs now" in bench.notes:
            raise InterruptedBuildError("the user interrupted")

    bench.notes.clear()
    with pytest.raises(InterruptedBuildError), bench.prying({"hangs": True}, check=interrupt):
        pass
    assert containers(engine) == []


def test_a_killed_dis_leaves_no_container(bench: Bench, engine: DockerEngine) -> None:
    heard, said = os.pipe()

    class Told(list[str]):
        def append(self, note: str) -> None:
            os.write(said, f"{note}\n".encode())

    pid = os.fork()
    if pid == 0:  # pragma: no cover - it is killed
        bench.notes = Told()
        with bench.prying({"hangs": True}):
            os._exit(0)
    os.close(said)
    try:
        # Not before it computes, and reads nothing that could tell it.
        with os.fdopen(heard) as notes:
            assert "it hangs now\n" in iter(notes.readline, "")
            assert containers(engine)[0]["State"] == "running"
            os.kill(pid, signal.SIGKILL)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    wait_for(lambda: not containers(engine))


def test_what_a_killed_dis_made_and_did_not_start_is_removed_by_the_next(
    bench: Bench, engine: DockerEngine
) -> None:
    with bench.prying({}):
        pass
    code = "from dis_derivations.images.leftover_containers import labels; print(labels()['dev.dis.owner'])"
    owner = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()

    def made(**changes: str) -> str:
        wanted = {**labels(), **changes}
        return str(engine.client.create_container(bench.image.id, ["x"], labels=wanted)["Id"])

    left, own, foreign = made(**{"dev.dis.owner": owner}), made(), made(**{"dev.dis.owner": "x"})
    assert {each["Id"] for each in containers(engine)} == {left, own, foreign}
    with bench.prying({}):
        pass
    assert {each["Id"] for each in containers(engine)} == {own, foreign}
    assert remove_leftovers(engine) == ()
    for each in (own, foreign):
        engine.client.remove_container(each)


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
