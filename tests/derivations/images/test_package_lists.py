"""Lists of packages are read as their systems write them, and malformed ones are said not to be read."""

import struct
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clock import Clock
from dis_derivations.images.contents.layer_packages import (
    Unread,
    read_layer,
)
from dis_derivations.images.contents.layer_stream import Allowance, Limits, UnreadableError
from image_layers import compared, layer, read, shown
from images import Member, distribution, dpkg_status, layer_of
from rpm_databases import rpm_database, rpm_header

STATUS = "var/lib/dpkg/status"
HARD = tarfile.LNKTYPE


LISTED = {
    "Debian": (STATUS, dpkg_status(libc6="2.36-9", tzdata="2024a"), "libc6", "2.36-9"),
    "distroless": (
        "var/lib/dpkg/status.d/base",
        b"Package: base-files\nVersion: 12.4\nDescription: x\n y\n",
        "base-files",
        "12.4",
    ),
    "Alpine": ("lib/apk/db/installed", b"C:Q1x=\nP:musl\nV:1.2.5-r0\nF:lib\nR:P\n\n", "musl", "1.2.5-r0"),
    "Python": (
        "opt/v/Flash_Attn-2.8.dist-info/METADATA",
        b"Metadata-Version: 2.1\r\nName: flash-attn\r\nVersion: 2.8.0\r\n\r\nVersion: 9",
        "flash-attn",
        "2.8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LISTED)
def test_lists_are_read_as_their_systems_write_them(tmp_path: Path, case: str) -> None:
    path, data, name, version = LISTED[case]

    packages = read(tmp_path, layer_of([Member(path, data)])).lists[path]

    assert not isinstance(packages, Unread)
    assert (packages[0].name, packages[0].version) == (name, version)


def test_what_is_not_installed_is_no_package(tmp_path: Path) -> None:
    gone = dpkg_status(a="1").replace(b"install ok installed", b"deinstall ok config-files")
    checksums = Member("var/lib/dpkg/status.d/base.md5sums", b"0  x")

    found = read(tmp_path, layer_of([Member(STATUS, gone), checksums])).lists
    assert found == {STATUS: ()}


def test_a_directory_whose_metadata_says_otherwise_is_shown_with_both(tmp_path: Path) -> None:
    real = distribution("torch", "2.10.0")
    lie = replace(real, name=real.name.replace("2.10.0", "2.11.0"))
    a, b = (layer(tmp_path, layer_of([each])) for each in (real, lie))

    (found,) = compared([a], [b]).packages
    assert found.new == ("2.11.0 (its METADATA says torch 2.10.0)",)


def test_a_hard_link_to_the_same_list_is_that_list(tmp_path: Path) -> None:
    first = distribution("torch", "2.10.0", "cache/x")
    second = Member("usr/torch-2.10.0.dist-info/METADATA", kind=HARD, target=f"./{first.name}")
    other = Member("usr/numpy-2.dist-info/METADATA", kind=HARD, target=first.name)

    lists = read(tmp_path, layer_of([first, second, other])).lists
    assert lists[second.name] == lists[first.name]
    assert lists[other.name] == Unread("it is a hard link to the list of something else")


def test_long_names_are_read_in_every_form(tmp_path: Path) -> None:
    long = distribution("torch", "2.10.0", "/".join(["very-long-name-of-a-directory"] * 9))
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        assert list(read(tmp_path, layer_of([long], form)).lists) == [long.name]


@pytest.mark.parametrize(
    "data",
    [b"Package: a\n\n", b"Version: 1\n\n", b"Package: a b\nVersion: 1\n\n", b"Package: \xff\nVersion: 1\n"],
)  # fmt: skip
def test_a_malformed_list_is_not_read(tmp_path: Path, data: bytes) -> None:
    (found,) = read(tmp_path, layer_of([Member("var/lib/dpkg/status.d/a", data)])).lists.values()
    assert isinstance(found, Unread)
    assert found.why == "a package in it has no name or no version"


GLIBC: dict[str, Any] = {"name": "glibc", "version": "2.34", "release": "100.el9"}
RPM = "var/lib/rpm/rpmdb.sqlite"


def test_a_database_of_rpm_is_read_where_it_is_one_of_sqlite(tmp_path: Path) -> None:
    key = rpm_header(name="gpg-pubkey", version="fd431d51", release="4ae0493b")
    a, b = (
        layer(tmp_path, layer_of([Member(RPM, rpm_database(*map(rpm_header_of, packages), key))]))
        for packages in (
            (GLIBC, {**GLIBC, "name": "bind", "epoch": 32, "summary": "x"}),
            ({**GLIBC, "release": "101.el9"},),
        )
    )

    found = compared([a], [b])

    assert shown(found) == [
        ("RPM", "bind", ("32:2.34-100.el9",), ()),
        ("RPM", "glibc", ("2.34-100.el9",), ("2.34-101.el9",)),
    ]
    assert found.unread == ()


def rpm_header_of(fields: dict[str, Any]) -> bytes:
    return rpm_header(**fields)


VIEW = "VIEW Packages AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT n AS blob FROM r"
HOSTILE_RPM = {
    "Berkeley DB": (b"\0" * 4096, "it is no database of SQLite"),
    "cut off": (rpm_database(rpm_header_of(GLIBC))[:5000], "it is a damaged database"),
    "noise": (b"SQLite format 3\0" + b"\xff" * 9000, "it is a damaged database"),
    "no table": (rpm_database(create="TABLE other (blob)"), "it has no table of packages"),
    "a view without end": (rpm_database(create=VIEW), "it has no table of packages"),
    "no header": (rpm_database(b"x"), "a package in it has no header"),
    "a lying header": (rpm_database(struct.pack(">II", 1 << 31, 8) + b"x" * 99), "a header in it is malformed"),
    "a long header": (rpm_database(struct.pack(">II", 1, 1 << 31) + b"x" * 99), "a header in it is malformed"),
    "no name": (rpm_database(rpm_header(version="1", release="1")), "has no name or no version"),
    "other types": (rpm_database(rpm_header_of({**GLIBC, "name": 7}).replace(b"\0\0\0\4", b"\0\0\0\5")),
                    "a header in it is malformed"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE_RPM)
def test_a_database_of_rpm_that_cannot_be_read_says_why(tmp_path: Path, case: str) -> None:
    data, why = HOSTILE_RPM[case]

    (found,) = read(tmp_path, layer_of([Member(RPM, data)])).lists.values()

    assert isinstance(found, Unread)
    assert why in found.why


def test_databases_of_rpm_that_are_not_read_are_named_where_they_differ(tmp_path: Path) -> None:
    a, b, c = (
        layer(tmp_path, layer_of([Member("var/lib/rpm/Packages", data), Member("x", data)]))
        for data in (b"one", b"two", b"one")
    )
    why = "it is no database of SQLite, which alone are read of those of RPM"
    assert compared([a], [c]).unread == ()
    assert compared([a], [b]).unread == tuple(
        f"'var/lib/rpm/Packages' in {label} could not be read: {why}" for label in "AB"
    )


def test_changes_beside_a_database_of_rpm_make_it_incomplete(tmp_path: Path) -> None:
    database = Member(RPM, rpm_database(rpm_header_of(GLIBC)))
    for pending, unread in ((b"", 0), (b"x", 1)):
        lists = read(tmp_path, layer_of([database, Member(f"{RPM}-wal", pending)])).lists
        assert sum(isinstance(each, Unread) for each in lists.values()) == unread


def read_rpm(tmp_path: Path, data: bytes, **limits: Any) -> Any:
    (found,) = read(tmp_path, layer_of([Member(RPM, data)]), **limits).lists.values()
    return found


@pytest.mark.parametrize(
    "columns",
    [
        "hnum INTEGER PRIMARY KEY, raw, blob AS (hex(zeroblob(9)))",
        "hnum INTEGER PRIMARY KEY, raw, blob AS (hex(zeroblob(9))) STORED",
        "hnum INTEGER PRIMARY KEY, blob, raw, other AS (instr(raw, blob))",
    ],
)
def test_a_computed_column_runs_no_function_of_sqlite(tmp_path: Path, columns: str) -> None:
    found = read_rpm(tmp_path, rpm_database(create=f"TABLE Packages ({columns})"))
    assert isinstance(found, Unread)
    assert found.why == "its table of packages computes a column"


def test_a_table_of_a_module_that_claims_a_page_is_no_table_of_packages(tmp_path: Path) -> None:
    data = rpm_database(rpm_header_of(GLIBC)).replace(
        b"CREATE TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB)",
        b"CREATE VIRTUAL TABLE Packages USING fts5(blob)".ljust(59),
    )
    found = read_rpm(tmp_path, data)
    assert isinstance(found, Unread)
    assert found.why == "it has no table of packages"


def test_a_header_that_repeats_a_field_is_malformed(tmp_path: Path) -> None:
    entries = [(1000, 0), (1001, 2), (1002, 4), *[(1000, 0)] * 1000]
    data = b"a\0001\0002\0"
    header = struct.pack(">II", len(entries), len(data))
    header += b"".join(struct.pack(">IIII", tag, 6, offset, 1) for tag, offset in entries) + data

    found = read_rpm(tmp_path, rpm_database(header))
    assert isinstance(found, Unread)
    assert found.why == "a header in it is malformed"


def test_a_field_that_nothing_ends_is_cut_at_the_end_of_its_header(tmp_path: Path) -> None:
    header = rpm_header_of({"name": "a", "version": "1", "release": "2"})
    length = struct.unpack_from(">I", header, 4)[0]
    lying = header[:4] + struct.pack(">I", length - 1) + header[8:-1] + b"9" * 500

    (package,) = read_rpm(tmp_path, rpm_database(lying))
    assert package.version == "1-2"


def test_rows_of_keys_count_as_packages_do(tmp_path: Path) -> None:
    key = rpm_header(name="gpg-pubkey", version="1", release="1")
    assert read_rpm(tmp_path, rpm_database(*[key] * 50), packages=50) == ()
    with pytest.raises(UnreadableError, match="its lists name more than 50 packages"):
        read_rpm(tmp_path, rpm_database(*[key] * 51), packages=50)


def test_many_rows_run_out_of_time(tmp_path: Path) -> None:
    clock = Clock()
    database = Member(RPM, rpm_database(*[rpm_header_of(GLIBC)] * 200))
    path = layer(tmp_path, layer_of([database])).blob
    assert path is not None

    def later() -> float:
        clock.now += 1
        return clock.now

    with pytest.raises(UnreadableError, match="reading layers took more than 100 seconds"):
        read_layer(path, "none", Allowance(Limits(seconds=100), later))


@pytest.mark.parametrize("name", [b"\x1b[31m\x07\n", b"\xff\xfe\xfd\xfc\xfb\x1b\x07"])
def test_an_error_of_sqlite_cannot_steer_a_terminal(tmp_path: Path, name: bytes) -> None:
    marker = b"Z" * len(name)
    whole = rpm_database(create=f'TABLE "{marker.decode()}" (a)').replace(marker, name)

    found = read_rpm(tmp_path, whole.replace(b"CREATE TABLE", b"CREATE TABLX"))
    assert isinstance(found, Unread)
    assert found.why.startswith("it is a damaged database (")
    assert found.why.isascii()
    assert found.why.isprintable()


def test_text_that_is_none_is_a_damaged_database(tmp_path: Path) -> None:
    whole = rpm_database(create="TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB, zzzz)")
    found = read_rpm(tmp_path, whole.replace(b"zzzz", b"z\xff\xffz"))
    assert isinstance(found, Unread)
    assert found.why.startswith("it is a damaged database (")
