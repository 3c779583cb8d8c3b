"""Images in a real Docker engine: sent from the store, compared, run, and removed when their objects are gone."""

import json
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from dis_derivations.images.container import (
    SCRATCH,
    ContainerCommand,
    ContainerLimits,
    ContainerResult,
    made_container,
    object_place,
    run_in_image,
)
from dis_derivations.images.docker_archive import docker_archive
from dis_derivations.images.docker_engine import DockerEngine
from dis_derivations.images.docker_loading import load_image
from dis_derivations.images.from_environment import image_from_environment
from dis_derivations.images.image_reference import image_reference
from dis_derivations.images.loaded_images import (
    LoadedImage,
    images_without_object,
    loaded_images,
    remove_from_docker,
)
from dis_derivations.images.source import ImageSource
from dis_derivations.images.stored_image import StoredImage, read_stored
from dis_derivations.sources.source import WantedFile
from dis_store import Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import (
    BuildError,
    IntegrityError,
    InterruptedBuildError,
    UnfitEnvironmentError,
)
from docker_engine import docker_engine
from images import LayoutMaker, tar_of

BASE = Path("/usr/bin/python3")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_engine(tmp_path_factory.mktemp("d")) as found:
        yield found


@pytest.fixture
def engine(address: str) -> Iterator[DockerEngine]:
    with DockerEngine.connect({"DOCKER_HOST": address}) as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture(scope="module")
def python_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, StoredImage]]:
    """Return a store with the image of an environment that has one module."""
    import sys

    with Store.open(tmp_path_factory.mktemp("python") / "store") as opened:
        with opened.new_tree() as tree:
            tree.write_bytes("hello.py", b"WORD = 'hello'\n")
            environment = tree.register()
        made = image_from_environment(opened, environment, Path(sys.executable))
        yield opened, read_stored(opened, made.object)


def stored(store: Store, layout: LayoutMaker, name: str = "localhost/engine") -> StoredImage:
    source = ImageSource(name, layout.directory)
    with store.new_tree() as tree:
        source.fetch([WantedFile(path) for path in source.listing()], tree, lambda: None)
        return read_stored(store, tree.register())


def an_image(
    store: Store, path: Path, content: bytes = b"hello", packing: str = "+gzip"
) -> StoredImage:
    layout = LayoutMaker(path)
    layout.finish(layout.image([tar_of({"a": content}), tar_of({"b": b"x"})], packing=packing))
    return stored(store, layout)


@pytest.mark.parametrize("packing", ["", "+gzip", "+zstd"])
def test_an_image_is_loaded_as_it_is_and_has_its_own_name(
    tmp_path: Path, store: Store, engine: DockerEngine, packing: str
) -> None:
    image = an_image(store, tmp_path / "layout", packing.encode(), packing)
    assert engine.image_id(image) is None
    assert load_image(store, engine, image) == image.id
    found = engine.client.inspect_image(image.id)
    assert found["RootFS"]["Layers"] == [str(each) for each in image.image.config.diff_ids]


def test_an_image_that_is_there_is_not_sent_again(
    tmp_path: Path, store: Store, engine: DockerEngine
) -> None:
    image = an_image(store, tmp_path / "layout", b"once")
    sent: list[int] = []
    load_image(store, engine, image, sent.append)
    assert sum(sent) == sum(blob.size for blob in image.image.content.blobs)
    sent.clear()
    load_image(store, engine, image, sent.append)
    assert sent == []


def test_the_archive_depends_on_the_image_alone(tmp_path: Path, store: Store) -> None:
    image = an_image(store, tmp_path / "layout")
    data = b"".join(docker_archive(image))
    assert data == b"".join(docker_archive(image))
    assert json.loads(data[512:1024].rstrip(b"\0"))[0]["RepoTags"] is None


def test_a_layer_that_is_not_packed_as_it_says_is_refused(
    tmp_path: Path, store: Store, engine: DockerEngine
) -> None:
    layout = LayoutMaker(tmp_path / "layout")
    lie = {"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd"}
    layout.finish(layout.image([tar_of({"a": b"gz"})], change=lambda m: m["layers"][0].update(lie)))
    with pytest.raises(IntegrityError, match="not compressed with Zstandard"):
        b"".join(docker_archive(stored(store, layout), reads_zstd=False))


def test_a_damaged_layer_never_becomes_an_image(
    tmp_path: Path, store: Store, engine: DockerEngine
) -> None:
    image = an_image(store, tmp_path / "layout", b"to be damaged")
    path = image.blobs[image.image.content.layers[0].digest]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    with pytest.raises(IntegrityError, match="is damaged"):
        load_image(store, engine, image)
    assert engine.image_id(image) is None
    sent: list[bytes] = []
    with pytest.raises(IntegrityError):
        deque(map(sent.append, docker_archive(image)), maxlen=0)
    assert b"manifest.json" in b"".join(sent)
    assert bytes(data) not in b"".join(sent)
    assert loaded_images(store) == []


def test_layers_that_are_not_those_of_the_configuration_are_refused(
    tmp_path: Path, store: Store, engine: DockerEngine
) -> None:
    layout = LayoutMaker(tmp_path / "layout")
    other = layout.blob(tar_of({"evil": b"!"}), "application/vnd.oci.image.layer.v1.tar")
    layout.finish(layout.image([tar_of({"a": b"good"})], change=lambda m: m.update(layers=[other])))
    with pytest.raises((BuildError, IntegrityError), match=r"Docker did not take|invalid diffID"):
        load_image(store, engine, stored(store, layout))


def test_too_many_layers_for_docker_are_told_before_anything_is_sent(
    tmp_path: Path, store: Store, engine: DockerEngine
) -> None:
    layout = LayoutMaker(tmp_path / "layout")
    layout.finish(layout.image([tar_of({str(n): b""}) for n in range(126)], packing=""))
    with pytest.raises(UnfitEnvironmentError, match="has 126 layers"):
        load_image(store, engine, stored(store, layout))


def test_an_engine_that_answers_with_another_image_is_not_believed(
    tmp_path: Path, store: Store, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = an_image(store, tmp_path / "layout", b"real")
    evil = {"Id": f"sha256:{'e' * 64}"}
    monkeypatch.setattr(engine.client, "inspect_image", lambda _name: evil)
    with pytest.raises(IntegrityError, match="another image than the one that is pinned"):
        load_image(store, engine, image)


def test_without_an_engine_it_is_said_what_needs_one(tmp_path: Path) -> None:
    with pytest.raises(UnfitEnvironmentError, match="no Docker engine answers") as caught:
        DockerEngine.connect({"DOCKER_HOST": f"unix://{tmp_path}/none"})
    assert caught.value.exit_code == 5
    assert "fetching and inspecting images needs none" in str(caught.value.hint)


# What was loaded


def test_what_was_loaded_is_noted_once(tmp_path: Path, store: Store, engine: DockerEngine) -> None:
    image = an_image(store, tmp_path / "layout", b"noted")
    for _ in range(2):
        load_image(store, engine, image)
    assert loaded_images(store) == [LoadedImage(engine.id, image.id, image.object)]
    assert images_without_object(store) == ()
    assert images_without_object(store, [str(image.object)]) == tuple(loaded_images(store))


def test_an_image_whose_object_is_gone_is_removed_from_docker(
    tmp_path: Path, engine: DockerEngine
) -> None:
    with Store.open(tmp_path / "store") as store:
        image = an_image(store, tmp_path / "layout", b"going")
        load_image(store, engine, image)
    with Store.open(tmp_path / "store") as store:
        store.collect_garbage()
        (left,) = images_without_object(store)
        assert remove_from_docker(store, engine, [left]).removed == (left,)
        assert loaded_images(store) == []
    assert engine.image_id(image) is None


def test_an_image_that_a_container_uses_is_kept_and_told_of(
    tmp_path: Path, engine: DockerEngine
) -> None:
    with Store.open(tmp_path / "store") as store:
        image = an_image(store, tmp_path / "layout", b"used")
        load_image(store, engine, image)
    container = engine.client.create_container(image.id, command=["/a"])
    with Store.open(tmp_path / "store") as store:
        store.collect_garbage()
        done = remove_from_docker(store, engine, images_without_object(store))
        engine.client.remove_container(container["Id"])
        assert done.removed == ()
        assert "used" in done.kept[0][1] or "using" in done.kept[0][1]
        assert len(loaded_images(store)) == 1


def test_what_another_engine_has_is_not_touched(tmp_path: Path, engine: DockerEngine) -> None:
    with Store.open(tmp_path / "store") as store:
        other = LoadedImage("another", Sha256(f"sha256:{'a' * 64}"), Digest("b" * 64))
        done = remove_from_docker(store, engine, [other])
        assert done.kept == ((other, "it was loaded into another Docker engine"),)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"engine":1,"image":"../x","object":"y"}'])
def test_a_damaged_record_is_passed_over(tmp_path: Path, store: Store, data: bytes) -> None:
    (store.path / "docker").mkdir()
    (store.path / "docker" / f"{'a' * 64}.json").write_bytes(data)
    os.mkfifo(store.path / "docker" / f"{'b' * 64}.json")
    assert loaded_images(store) == []


# Containers


@pytest.fixture
def python(python_store: tuple[Store, StoredImage], engine: DockerEngine) -> "Python":
    return Python(*python_store, engine)


class Python:
    """Runs Python code in the image of the environment."""

    def __init__(self, store: Store, image: StoredImage, engine: DockerEngine) -> None:
        self.store, self.image, self.engine = store, image, engine

    def run(
        self,
        code: str,
        objects: tuple[Digest, ...] = (),
        limits: ContainerLimits | None = None,
        check_interrupted: object = None,
        environment: dict[str, str] | None = None,
    ) -> ContainerResult:
        program = self.image.image.config.entrypoint[0]
        command = ContainerCommand(
            [program, "-s", "-S", "-B", "-c", code],
            objects,
            environment or {},
            limits or ContainerLimits(memory_bytes=256 << 20),
        )
        check = check_interrupted if callable(check_interrupted) else lambda: None
        return run_in_image(self.store, self.engine, self.image, command, check)

    @property
    def containers(self) -> list[object]:
        """All containers there are."""
        return list(self.engine.client.containers(all=True))


def test_what_an_image_declares_gives_a_container_no_disk_and_no_second_program(
    tmp_path: Path, store: Store, engine: DockerEngine
) -> None:
    config = {
        "Volumes": {"/data": {}, SCRATCH: {}},
        "Healthcheck": {"Test": ["CMD", "/evil"], "Interval": 1_000_000_000},
    }
    layout = LayoutMaker(tmp_path / "layout")
    layout.finish(layout.image([tar_of({"program": b""})], config=config))
    image = stored(store, layout)
    with made_container(store, engine, image, ContainerCommand(["/program"])) as name:
        found = engine.client.inspect_container(name)
    assert [each for each in found["Mounts"] if each["Type"] == "volume"] == []
    assert "size=64m" in found["HostConfig"]["Tmpfs"]["/data"]
    assert "size=268435456" in found["HostConfig"]["Tmpfs"][SCRATCH]
    assert found["Config"]["Healthcheck"]["Test"] == ["NONE"]


def test_a_command_gives_its_code_and_its_words(python: Python) -> None:
    found = python.run(
        "import hello, sys, os; print(hello.WORD); print(os.environ['A'], file=sys.stderr); sys.exit(3)",
        environment={"A": "said"},
    )
    assert (found.exit_code, found.stdout, found.stderr) == (3, b"hello\n", b"said\n")
    assert python.containers == []


def test_a_pinned_environment_is_started_by_the_image(
    tmp_path: Path, store: Store, engine: DockerEngine
) -> None:
    import sys

    document = {
        "kind": "environment", "format": 1, "python": "3.11", "packages": [], "tags": [],
        "import_paths": ["more"], "ignored": [],
    }  # fmt: skip
    with store.new_tree() as tree:
        tree.write_bytes("environment.json", json.dumps(document).encode())
        tree.write_bytes(
            "site-packages/hello.py",
            b"import sys, extra, subprocess\n"
            b"code = 'import extra; print(extra.WORD)'\n"
            b"print(sys.argv[1:], extra.WORD)\n"
            b"sys.stdout.flush()\n"
            b"subprocess.run([sys.executable, '-c', code], check=True)\n",
        )
        tree.write_bytes("site-packages/more/extra.py", b"WORD = 'extra'\n")
        environment = tree.register()
    image = read_stored(
        store, image_from_environment(store, environment, Path(sys.executable)).object
    )
    command = [*image.image.config.entrypoint, "-m", "hello", "argument"]
    found = run_in_image(store, engine, image, ContainerCommand(command))
    assert found.stdout == b"['argument'] extra\nextra\n", found.stderr


def test_a_container_is_alone_and_may_do_nothing(python: Python) -> None:
    code = """
import json, os, socket
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
def fails(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(),
    "caps": [status[n].strip() for n in ("CapEff", "CapPrm", "CapBnd", "CapInh")],
    "no_new": status["NoNewPrivs"].strip(), "seccomp": status["Seccomp"].strip(),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "connect": fails(lambda: socket.create_connection(("1.1.1.1", 53), 5)),
    "write": fails(lambda: open("/evil", "w")),
    "tmp": fails(lambda: open("/tmp/fine", "w").close()),
    "objects": os.path.exists("/dis/objects"),
}))
"""
    found = json.loads(python.run(code).stdout)
    assert (found["uid"], found["gid"]) == (65534, 65534)
    assert set(found["caps"]) == {"0" * 16}
    assert (found["no_new"], found["seccomp"]) == ("1", "2")
    assert found["interfaces"] == ["lo"]
    assert found["connect"] is not None
    assert (found["write"], found["tmp"]) == ("OSError", None)
    assert not found["objects"]


def test_objects_are_where_references_lead_and_cannot_be_changed(python: Python) -> None:
    with python.store.new_tree() as tree:
        tree.write_bytes("weights", b"numbers")
        weights = tree.register()
    with python.store.new_tree() as tree:
        tree.reference("model/weights", weights, "weights")
        closure = tree.register()
    code = f"""
print(open({f"{object_place(closure)}/model/weights"!r}).read())
import os
print(bool(os.statvfs({object_place(weights)!r}).f_flag & os.ST_RDONLY))
print(len(os.listdir("/dis/objects")), os.path.exists({object_place(python.image.object)!r}))
"""
    found = python.run(code, (closure,))
    places = len({closure[:2], weights[:2]})
    assert found.stdout.decode().splitlines() == ["numbers", "True", f"{places} False"]


def test_processes_and_memory_are_bounded(python: Python) -> None:
    code = """
import os
count = 0
try:
    while True:
        if os.fork() == 0:
            import time
            time.sleep(60)
        count += 1
except OSError:
    print(count, flush=True)
"""
    limits = ContainerLimits(memory_bytes=256 << 20, processes=8)
    assert int(python.run(code, limits=limits).stdout.splitlines()[0]) < 8
    greedy = python.run("b'x' * (1 << 30)", limits=ContainerLimits(memory_bytes=64 << 20))
    assert greedy.exit_code != 0


def test_a_command_that_says_too_much_is_ended(python: Python) -> None:
    with pytest.raises(BuildError, match="said too much"):
        python.run("while True: print('y' * 100)", limits=ContainerLimits(output_bytes=10_000))
    assert python.containers == []


def test_an_interruption_kills_the_container(python: Python) -> None:
    def interrupt() -> None:
        if python.engine.client.containers():
            raise InterruptedBuildError("the user interrupted")

    started = time.monotonic()
    with pytest.raises(InterruptedBuildError):
        python.run("import time; time.sleep(600)", check_interrupted=interrupt)
    assert python.containers == []
    assert time.monotonic() - started < 300
    assert not [each for each in threading.enumerate() if each.daemon and "_read" in each.name]


def test_a_command_that_closes_its_output_is_waited_for(python: Python) -> None:
    code = "import os, time; os.close(1); os.close(2); time.sleep(1); os._exit(7)"
    assert python.run(code).exit_code == 7


def test_a_program_that_is_not_there_is_told_of(python: Python) -> None:
    with pytest.raises(BuildError, match="could not be run"):
        run_in_image(python.store, python.engine, python.image, ContainerCommand(["/missing"]))
    assert python.containers == []


def test_a_container_of_another_image_is_never_started(
    python: Python, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspect = python.engine.client.inspect_container
    started: list[str] = []
    monkeypatch.setattr(
        python.engine.client,
        "inspect_container",
        lambda name: {**inspect(name), "Image": f"sha256:{'e' * 64}"},
    )
    monkeypatch.setattr(python.engine.client, "start", started.append)
    with pytest.raises(IntegrityError, match="another image"):
        python.run("print(1)")
    assert started == []
    assert python.containers == []


def test_an_image_is_named_by_docker_as_a_manifest_may_name_it() -> None:
    assert str(image_reference("vllm/vllm-openai")) == "oci://docker.io/vllm/vllm-openai:latest"
