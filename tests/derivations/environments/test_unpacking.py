"""Wheels become one tree: what is kept, what is left out, and what is refused."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.environments.document import read_environment
from dis_derivations.environments.path_files import PathLines, read_path_files
from dis_derivations.environments.record import RecordedFile, encode_record, parse_record
from dis_derivations.environments.wheel_layout import lay_out
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError
from package_wheels import write_package

Unpack = Callable[..., Path]
INFO = "one-1.0.dist-info"


def files_of(environment: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(environment)): path.read_bytes()
        for path in environment.rglob("*")
        if path.is_file()
    }


def refusal(unpack: Unpack, *wheels: Path) -> str:
    with pytest.raises(InvalidInputError) as caught:
        unpack(*wheels)
    return f"{caught.value}\n{caught.value.hint}"


def test_an_environment_holds_the_files_of_its_wheels_and_says_what_they_are(
    unpack: Unpack, tmp_path: Path
) -> None:
    wheel = write_package(tmp_path, "one", files={"one/__init__.py": b"", "one/x.so": b"\x7fELF"})
    environment = unpack(wheel)
    assert set(files_of(environment)) == {
        "environment.json",
        *(f"site-packages/{name}" for name in ("one/__init__.py", "one/x.so")),
        *(f"site-packages/{INFO}/{name}" for name in ("METADATA", "RECORD", "WHEEL")),
    }
    (package,) = read_environment(environment).packages
    assert (package.name, package.version, package.wheel) == ("one", "1.0", wheel.name)
    assert package.sha256 == Sha256.of(wheel.read_bytes())
    assert package.tags == ("py3-none-any",)


def test_record_lists_what_is_there_now(unpack: Unpack, tmp_path: Path) -> None:
    wheel = write_package(
        tmp_path,
        "one",
        files={
            "one.py": b"1",
            "one-1.0.data/scripts/run": b"#!python\n",
            "one/__pycache__/x.pyc": b"",
        },
    )
    environment = unpack(wheel)
    record = parse_record((environment / f"site-packages/{INFO}/RECORD").read_bytes())
    assert {f"site-packages/{path}" for path in record} == set(files_of(environment)) - {
        "environment.json"
    }


def test_data_directories_go_where_they_belong(unpack: Unpack, tmp_path: Path) -> None:
    data = "one-1.0.data"
    wheel = write_package(
        tmp_path,
        "one",
        files={
            f"{data}/purelib/pure.py": b"1",
            f"{data}/platlib/plat.so": b"2",
            f"{data}/data/lib/libomp.so": b"3",
            f"{data}/scripts/one": b"#!python\n",
            f"{data}/headers/one.h": b"4",
        },
    )
    found = files_of(unpack(wheel))
    assert found["site-packages/pure.py"] == b"1"
    assert found["site-packages/plat.so"] == b"2"
    assert found["data/lib/libomp.so"] == b"3"
    assert not any("scripts" in path or "one.h" in path or path.endswith("/one") for path in found)


def test_programs_stay_programs(unpack: Unpack, tmp_path: Path) -> None:
    wheel = write_package(
        tmp_path, "one", files={"one/tool": b"\x7fELF", "one/x.py": b""}, executables=["one/tool"]
    )
    top = unpack(wheel) / "site-packages/one"
    assert (top / "tool").stat().st_mode & 0o111
    assert not (top / "x.py").stat().st_mode & 0o111


def test_notes_of_installers_are_not_kept(unpack: Unpack, tmp_path: Path) -> None:
    names = ("INSTALLER", "REQUESTED", "direct_url.json")
    wheel = write_package(tmp_path, "one", files={f"{INFO}/{name}": b"pip\n" for name in names})
    assert not {Path(path).name for path in files_of(unpack(wheel))} & set(names)


def test_the_order_and_the_packing_of_wheels_change_nothing(unpack: Unpack, tmp_path: Path) -> None:
    wheels = [write_package(tmp_path, name) for name in ("one", "two")]
    assert unpack(*wheels) == unpack(*reversed(wheels))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("", "one.py in it is not listed in RECORD"),
        ("one.py,,\n", "no strong hash"),
        ("one.py,md5=AAAA,1\n", "no strong hash"),
        ("one.py,sha256=AAAA,5\n", "one.py in it is not as recorded: its sha256 is"),
        ("two.py,sha256=AAAA,1\n", "RECORD lists two.py, which is not in it"),
        ('one.py,"sha', "RECORD cannot be read"),
        ("one.py,sha256=AAAA,x\n", "RECORD gives one.py the size 'x'"),
        ("one.py,sha256=AAAA,1\none.py,sha256=BBBB,1\n", "RECORD lists one.py twice"),
    ],
)
def test_what_is_not_as_recorded_is_refused_by_name(
    unpack: Unpack, tmp_path: Path, record: str, said: str
) -> None:
    with zipfile.ZipFile(write_package(tmp_path, "one", files={"one.py": b"12345"})) as archive:
        _, true = archive.read(f"{INFO}/RECORD").decode().split("\n", 1)
    wheel = write_package(tmp_path, "one", files={"one.py": b"12345"}, record=record + true)
    found = refusal(unpack, wheel)
    assert f"the wheel {wheel.name} is refused" in found
    assert said in found


def test_a_wrong_size_in_record_is_refused(unpack: Unpack, tmp_path: Path) -> None:
    right = write_package(tmp_path, "one", files={"one.py": b"12345"})
    with zipfile.ZipFile(right) as archive:
        record = archive.read(f"{INFO}/RECORD").decode()
    wrong = write_package(
        tmp_path, "one", files={"one.py": b"12345"}, record=record.replace(",5\n", ",6\n")
    )
    assert "it has 5 bytes, and RECORD says 6" in refusal(unpack, wrong)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"one.pyc": b""}, "bytecode without its source"),
        ({"one-1.0.data/elsewhere/x": b""}, "for a place that there is not"),
        ({"two-1.0.dist-info/METADATA": b""}, "several .dist-info directories"),
        ({"two-1.0.data/data/x": b""}, "is of another package or version"),
        ({"A.py": b"", "a.py": b""}, "differs from"),
        ({"a/b": b"", "a": b""}, "both an entry and a directory"),
        ({"con.py": b""}, "name of a device"),
        ({"x/e\u0301.py": b""}, "NFC"),
    ],
)
def test_what_is_no_sound_wheel_is_refused(
    unpack: Unpack, tmp_path: Path, files: dict[str, bytes], said: str
) -> None:
    wheel = write_package(tmp_path, "one", files=files)
    found = refusal(unpack, wheel)
    assert wheel.name in found
    assert said in found


def test_bytecode_beside_its_source_is_left_out(unpack: Unpack, tmp_path: Path) -> None:
    wheel = write_package(
        tmp_path, "one", files={"one.py": b"", "one.pyc": b"", "__pycache__/one.pyc": b""}
    )
    assert not any(path.endswith(".pyc") for path in files_of(unpack(wheel)))


def test_a_wheel_under_another_name_is_refused(unpack: Unpack, tmp_path: Path) -> None:
    wheel = write_package(tmp_path, "one")
    other = wheel.rename(tmp_path / "two-1.0-py3-none-any.whl")
    assert "of another package or version" in refusal(unpack, other)


def test_a_wheel_that_grows_beyond_measure_is_refused(unpack: Unpack, tmp_path: Path) -> None:
    wheel = write_package(tmp_path, "one", files={"zeros": bytes(80 << 20)})
    assert "would grow from" in refusal(unpack, wheel)


def test_two_wheels_may_bring_the_same_file_and_not_two_of_one_name(
    unpack: Unpack, tmp_path: Path
) -> None:
    shared = {"shared/LICENSE": b"same"}
    one = write_package(tmp_path, "one", files=shared)
    two = write_package(tmp_path, "two", files=shared)
    assert files_of(unpack(one, two))["site-packages/shared/LICENSE"] == b"same"
    other = write_package(tmp_path, "three", files={"shared/LICENSE": b"other"})
    found = refusal(unpack, one, other)
    assert "a different shared/LICENSE" in found
    assert f"{one.name} and {other.name} both bring it" in found
    assert "software_stack.python.exclude" in found


def test_packages_that_share_a_namespace_with_files_of_their_own_are_told_so(
    unpack: Unpack, tmp_path: Path
) -> None:
    one = write_package(tmp_path, "one", files={"space/__init__.py": b"1"})
    two = write_package(tmp_path, "two", files={"space/__init__.py": b"2"})
    assert "an __init__.py of its own in each" in refusal(unpack, one, two)


def test_path_files_name_directories_and_run_nothing(unpack: Unpack, tmp_path: Path) -> None:
    lines = b"inner/packages\n# a comment\nimport os; os.abort()\n/etc\n../outside\ngone\n\n./inner/packages/\n"
    wheel = write_package(
        tmp_path,
        "one",
        files={"inner/packages/deep.py": b"", "one.pth": lines, "inner/x.pth": b"import x"},
    )
    document = read_environment(unpack(wheel))
    assert document.import_paths == ("inner/packages",)
    assert document.ignored == (
        "one.pth: import os; os.abort()",
        "one.pth: /etc",
        "one.pth: ../outside",
        "one.pth: gone",
    )


_PATHS = st.text(st.sampled_from('ab./_-\u00e9 ,"\n'), min_size=1, max_size=12)


@given(st.dictionaries(_PATHS, st.binary(max_size=4), max_size=5))
def test_record_says_of_any_paths_what_was_written(files: dict[str, bytes]) -> None:
    listed = {path: (len(data), Sha256.of(data)) for path, data in files.items()}
    data = encode_record(listed, ["x-1.dist-info/RECORD"])
    found = parse_record(data)
    assert set(found) == {*files, "x-1.dist-info/RECORD"}
    for path, (size, sha256) in listed.items():
        assert found[path].size == size
        assert found[path].difference(size, bytes.fromhex(sha256.hex)) is None
        assert found[path].difference(size + 1, bytes.fromhex(sha256.hex)) is not None


@given(
    st.lists(
        st.sampled_from(["a", "b", "__pycache__", "one-1.0.data", "purelib", "data", "x.pyc"]),
        min_size=1,
        max_size=5,
    )
)
def test_no_member_of_a_wheel_goes_beside_site_packages_and_data(parts: list[str]) -> None:
    member = "/".join(parts)
    try:
        layout = lay_out("one-1.0-py3-none-any.whl", [member, f"{INFO}/WHEEL"])
    except ValueError:
        return
    for place in layout.places.values():
        assert place.startswith(("site-packages/", "data/"))
        assert "__pycache__" not in place


def test_a_recorded_file_without_a_hash_has_no_hasher() -> None:
    with pytest.raises(ValueError, match="no hash"):
        RecordedFile("x", "", "", None).hasher()


def test_a_line_of_code_is_no_directory_even_where_one_is_called_so() -> None:
    lines = read_path_files({"a.pth": b"import x\nx/y\n"}, lambda _path: True)
    assert lines == PathLines(import_paths=("x/y",), ignored=("a.pth: import x",))
