"""Wheels that nobody trusts: read in bounds, file by file, or refused."""

import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dis_derivations.sources.wheel_archive import WheelArchive
from dis_store.errors import InvalidInputError
from wheels import write_wheel

FILES = {"m/config.json": b"{}\n", "m/weights.bin": bytes(range(256)) * 4096}


def member(name: str, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def read(path: Path, name: str) -> bytes:
    with WheelArchive(path) as archive:
        return b"".join(archive.pieces(name))


def refused(path: Path, words: str, name: str = "m/config.json") -> None:
    with pytest.raises(InvalidInputError, match=words):
        read(path, name)


def test_files_are_read_as_they_went_in(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, FILES)
    with WheelArchive(path) as archive:
        assert set(FILES) < set(archive.names)
        assert "m/config.json" in archive
        assert "m" not in archive
        assert archive.size("m/weights.bin") == 1 << 20
    for name, data in FILES.items():
        assert read(path, name) == data


@pytest.mark.parametrize(
    "name",
    ["../up", "/abs", "a/../../b", "a//b", "C:\\x", "a\\..\\b", "nul", "a\0b", "./a", "a\x1b"],
)
def test_a_name_that_leads_elsewhere_condemns_the_whole_wheel(tmp_path: Path, name: str) -> None:
    plain, evil = b"y" * len(name.encode()), name.encode()
    path = write_wheel(tmp_path, FILES, more=[(member(plain.decode()), b"x")])
    path.write_bytes(path.read_bytes().replace(plain, evil))
    refused(path, "it lists")


def test_a_name_twice_condemns_the_whole_wheel(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = write_wheel(tmp_path, FILES, more=[(member("m/config.json"), b"[]")])
    refused(path, "twice")


@pytest.mark.parametrize("mode", [stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644, stat.S_IFDIR | 0o755])
def test_what_is_no_file_is_not_read(tmp_path: Path, mode: int) -> None:
    path = write_wheel(tmp_path, FILES, more=[(member("link", mode), b"m/config.json")])
    refused(path, "a link or another thing", "link")
    assert read(path, "m/config.json") == b"{}\n"


def test_a_file_that_would_grow_too_much_is_not_read(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, {"bomb": bytes(64 << 20), "small": bytes(1 << 20)})
    refused(path, "would grow from", "bomb")
    assert read(path, "small") == bytes(1 << 20)


def test_a_file_that_says_it_is_longer_than_it_is_gives_no_more_than_there_is(
    tmp_path: Path,
) -> None:
    """And one that says it is shorter gives no more than it says, and then its checksum is wrong."""
    path = write_wheel(tmp_path, {"m/config.json": b"a" * 5000})
    data = path.read_bytes()
    for claimed in (4000, 6000):
        path.write_bytes(data.replace(struct.pack("<I", 5000), struct.pack("<I", claimed)))
        refused(path, "is damaged")


def changed_data(path: Path) -> None:
    data = path.read_bytes()
    place = data.index(b"m/config.json") + len("m/config.json")
    path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])


def encrypted(path: Path) -> None:
    set_flags(path, 8, 1)


def bzip2(path: Path) -> None:
    set_flags(path, 10, 12)


def set_flags(path: Path, place: int, value: int) -> None:
    """Change the list's entry of the first member."""
    data = bytearray(path.read_bytes())
    start = data.index(b"PK\1\2")
    data[start + place : start + place + 2] = struct.pack("<H", value)
    path.write_bytes(data)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed byte": (changed_data, "is damaged"),
    "a cut": (lambda path: path.write_bytes(path.read_bytes()[:-30]), "no zip archive|is damaged"),
    "text": (lambda path: path.write_text("no wheel"), "no zip archive"),
    "nothing": (lambda path: path.write_bytes(b""), "no zip archive"),
    "a password": (encrypted, "encrypted"),
    "another packing": (bzip2, "packed as no wheel is"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_wheel_is_refused(tmp_path: Path, case: str) -> None:
    change, words = DAMAGE[case]
    path = write_wheel(tmp_path, FILES)
    change(path)
    refused(path, words)


@pytest.mark.parametrize("long_record", [False, True])
def test_a_list_that_is_too_long_is_refused_before_it_is_read(
    tmp_path: Path, long_record: bool
) -> None:
    path = tmp_path / "long.whl"
    size = 20 << 20
    listed = b"PK\1\2" + bytes(size - 4)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, size, 0, 0)
    record = b""
    if long_record:
        end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, 0xFFFFFFFF, 0xFFFFFFFF, 0)
        record = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, 0)
        record += struct.pack("<4sIQI", b"PK\6\7", 0, size, 1)
    path.write_bytes(listed + record + end)
    refused(path, f"its list of files has {size} bytes")


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    fields = (20, 0, 20, 0, 0, 0, 0, 0, zlib.crc32(b""), 0, 0, 1, 0, 0, 0, 0, 0, 0)
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", *fields)
    listed = b"".join(entry + b"%c" % (97 + number % 26) for number in range(70_000))
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 4464, 4464, len(listed), 0, 0)
    path = tmp_path / "many.whl"
    path.write_bytes(listed + end)
    refused(path, "it lists 70000 files")


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(st.tuples(st.integers(0, 1200), st.binary(min_size=1, max_size=6)), max_size=5)
)
@example(changes=[(693, b"\x01")])
def test_any_damage_is_refused_or_leaves_the_file_as_it_was(
    tmp_path: Path, changes: list[tuple[int, bytes]]
) -> None:
    path = write_wheel(tmp_path, {"m/config.json": b"{}\n"})
    data = bytearray(path.read_bytes())
    for place, content in changes:
        data[place : place + len(content)] = content
    path.write_bytes(data)
    try:
        with WheelArchive(path) as archive:
            if "m/config.json" in archive:
                read = b"".join(archive.pieces("m/config.json"))
                assert len(read) == archive.size("m/config.json")
    except InvalidInputError:
        pass
