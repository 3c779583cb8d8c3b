"""Images made of environments: the same every time, with what they need and nothing else."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dis_derivations.environments.interpreter import probe_interpreter
from dis_derivations.images.elf_file import is_elf, read_elf
from dis_derivations.images.from_environment import MadeImage, image_from_environment
from dis_derivations.images.image_layout import blob_path
from dis_derivations.images.interpreter_label import interpreter_facts
from dis_derivations.images.shared_libraries import needed_libraries
from dis_derivations.images.stored_image import read_stored
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError, UnfitEnvironmentError

PYTHON = Path(sys.executable)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("store") / "store") as opened:
        yield opened


def environment(store: Store, word: bytes = b"hello") -> Digest:
    document = {
        "kind": "environment", "format": 1, "python": "3.11", "packages": [], "tags": [],
        "import_paths": ["extra"], "ignored": [],
    }  # fmt: skip
    with store.new_tree() as tree:
        tree.write_bytes("environment.json", json.dumps(document).encode())
        tree.write_bytes("site-packages/hello.py", b"WORD = %r" % word)
        tree.write_bytes("site-packages/extra/more.py", b"")
        return tree.register()


@pytest.fixture(scope="module")
def made(store: Store) -> MadeImage:
    return image_from_environment(store, environment(store), PYTHON)


def layers(store: Store, made: MadeImage) -> list[tarfile.TarFile]:
    image = read_stored(store, made.object).image
    return [
        tarfile.open(fileobj=io.BytesIO(store.read_bytes(made.object, blob_path(layer.digest))))
        for layer in image.content.layers
    ]


def test_the_same_environment_makes_the_same_image(
    tmp_path: Path, store: Store, made: MadeImage
) -> None:
    with Store.open(tmp_path / "other") as other:
        assert image_from_environment(other, environment(other), PYTHON) == made
    assert image_from_environment(store, environment(store, b"bye"), PYTHON).object != made.object


def test_another_umask_another_time_and_other_compiled_files_change_nothing(
    tmp_path: Path, made: MadeImage
) -> None:
    code = (
        "import os, sys; os.umask(0o077)\n"
        "from pathlib import Path; from dis_store import Store, Digest\n"
        "from dis_derivations.images.from_environment import image_from_environment\n"
        "sys.path.insert(0, sys.argv[1]); from test_from_environment import environment\n"
        "store = Store.open(Path(sys.argv[2]))\n"
        "print(image_from_environment(store, environment(store), Path(sys.argv[3])).manifest)\n"
        "store.close()"
    )
    arguments = [str(Path(__file__).parent), str(tmp_path / "store"), str(PYTHON)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7"},
    )
    assert done.stdout.strip() == made.manifest


def test_each_part_is_a_layer_of_its_own(store: Store, made: MadeImage) -> None:
    libraries, python, packages = (
        {member.name for member in layer.getmembers()} for layer in layers(store, made)
    )
    assert "dis/lib/libc.so.6" in libraries
    assert any(name.startswith("lib64/ld-") or "/ld-linux" in name for name in libraries)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    assert {f"dis/python/bin/{version}", f"dis/python/lib/{version}/os.py"} <= python
    assert "dis/environment/site-packages/hello.py" in packages
    assert not [name for name in python if "__pycache__" in name or name.endswith(".pyc")]
    assert not [name for name in python if "site-packages" in name]


def test_another_environment_shares_the_layers_below_it(store: Store, made: MadeImage) -> None:
    other = image_from_environment(store, environment(store, b"other"), PYTHON)
    one, two = (read_stored(store, each.object).image.content.layers for each in (made, other))
    assert one[:2] == two[:2]
    assert one[2] != two[2]


def test_members_have_no_time_no_owner_and_stand_in_order(store: Store, made: MadeImage) -> None:
    for layer in layers(store, made):
        members = layer.getmembers()
        assert {(each.mtime, each.uid, each.gid, each.uname, each.gname) for each in members} == {
            (0, 0, 0, "", "")
        }
        names = [each.name for each in members]
        assert names == sorted(names, key=str.encode)
        assert all(
            each.isdir() or (each.isreg() and each.mode in (0o644, 0o755)) for each in members
        )


def test_no_path_of_this_machine_is_in_the_documents(store: Store, made: MadeImage) -> None:
    image = read_stored(store, made.object).image
    config = store.read_bytes(made.object, blob_path(image.content.config.digest)).decode()
    for place in (str(store.path), str(PYTHON), str(Path.home()), sys.prefix, sys.base_prefix):
        assert place == "/usr" or place not in config
    assert "/dis/environment/site-packages:/dis/environment/site-packages/extra" in config
    assert image.config.entrypoint[1:] == ("-s", "-S", "-B", "/dis/startup/start.py")


def test_what_is_made_is_an_image_that_a_manifest_can_name(store: Store, made: MadeImage) -> None:
    from dis_derivations.images.source import ImageSource

    source = ImageSource(f"localhost/python@{made.manifest}", store.object_path(made.object))
    assert source.available() is None
    assert source.resolved().content.config.digest == made.config


def test_what_identifies_the_python_in_it_is_said_in_a_label(store: Store, made: MadeImage) -> None:
    image = read_stored(store, made.object).image
    told = interpreter_facts(image.config.labels["dev.dis.interpreter"])
    assert told == probe_interpreter(PYTHON).facts
    assert image.to_lock()["interpreter"] == image.config.labels["dev.dis.interpreter"]


def test_programs_are_put_in_where_a_shell_is_looked_for(store: Store, made: MadeImage) -> None:
    more = image_from_environment(store, environment(store), PYTHON, ("sh", "/usr/bin/env"))
    libraries, python, _ = layers(store, more)
    names = set(libraries.getnames())
    assert {"bin/sh", "bin/env"} < names
    assert python.getnames() == layers(store, made)[1].getnames()
    assert "PATH=/dis/python/bin:/bin" in read_stored(store, more.object).image.config.environment
    program = libraries.extractfile("bin/env")
    assert program is not None
    assert program.read() == Path("/usr/bin/env").resolve().read_bytes()
    for library in needed_libraries([Path("/usr/bin/env").resolve()]).libraries:
        assert f"dis/lib/{library}" in names


def test_a_program_that_is_a_script_or_not_there_is_refused(tmp_path: Path, store: Store) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    for name, said in ((str(script), "cannot be put into an image"), ("no-such", "no program")):
        with pytest.raises(UnfitEnvironmentError, match=said):
            image_from_environment(store, environment(store), PYTHON, (name,))


@pytest.mark.parametrize("program", ["/missing/python", "/bin/true", "/bin/sh"])
def test_what_is_no_interpreter_is_refused(store: Store, program: str) -> None:
    with pytest.raises(UnfitEnvironmentError, match="no Python interpreter"):
        image_from_environment(store, environment(store), Path(program))


# Libraries


def test_libraries_are_those_that_the_loader_finds() -> None:
    found = needed_libraries([Path("/bin/ls")])
    listed = subprocess.run(["ldd", "/bin/ls"], capture_output=True, text=True, check=True).stdout
    told = {
        line.split()[0]: os.path.realpath(line.split()[2])
        for line in listed.splitlines()
        if "=> /" in line
    }
    assert {name: str(path) for name, path in found.libraries.items()} == told
    assert found.missing == {}
    assert len(found.loaders) == 1


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    program = bytearray(Path("/bin/ls").read_bytes())
    assert b"libc.so.6\0" in program
    (tmp_path / "ls").write_bytes(program.replace(b"libc.so.6\0", b"libq.so.6\0"))
    assert needed_libraries([tmp_path / "ls"]).missing == {"libq.so.6": tmp_path / "ls"}


@pytest.mark.parametrize("length", [0, 3, 4, 16, 63, 64, 200, 1000])
def test_half_an_elf_file_is_refused(tmp_path: Path, length: int) -> None:
    (tmp_path / "half").write_bytes(Path("/bin/ls").read_bytes()[:length])
    if length >= 4:
        assert is_elf(tmp_path / "half")
    with pytest.raises(InvalidInputError):
        read_elf(tmp_path / "half")


def test_bytes_of_an_elf_file_that_are_wrong_are_refused_or_read(tmp_path: Path) -> None:
    import random

    data = Path("/bin/ls").read_bytes()
    chance = random.Random(7)  # noqa: S311 - no secret
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(8):
            broken[chance.randrange(1024)] = chance.randrange(256)
        (tmp_path / "broken").write_bytes(broken)
        try:
            read_elf(tmp_path / "broken")
        except InvalidInputError:
            continue
