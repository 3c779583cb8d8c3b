"""Addresses are parsed strictly, are shown without secrets, and no file leaves its directory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.transport.address import (
    UnsafeAddressError,
    check_declared,
    follow,
    parse_address,
)
from dis_derivations.transport.answer import Version, length_of, range_of, version_of
from dis_derivations.transport.extents import Extents

CANARY = "canary-5up3r"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.org/file",
        "//example.org/file",
        "http://example.org/file",
        "http://10.0.0.1/file",
        "http://localhost.example/file",
        "http://127.0.0.1.example/file",
        "http://0x7f.1/file",
        "ftp://example.org/file",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://",
        "https:///file",
        "https://exa mple.org/",
        "https://bücher.example/",
        "https://example.org:99999/",
        "https://example.org:0/",
        "https://example.org:x/",
        "https://[::1/",
        "https://example.org/a/../b",
        "https://example.org/a/%2e%2e/b",
        "https://example.org/a\nb",
        "https://example.org/?a b",
        f"https://example.org/{'x' * 9000}",
    ],
)
def test_what_is_no_address_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(UnsafeAddressError) as caught:
        parse_address(text.replace("//", f"//{CANARY}:{CANARY}@", 1))
    assert CANARY not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org",
        "https://example.org:8443/a/b%20c",
        "https://10.0.0.1/internal/",
        "https://[2606:4700::1111]/file",
        "http://localhost:8000/file",
        "http://127.0.0.1/file",
        "http://127.1.2.3:5000/",
        "http://[::1]:5000/",
        "HTTPS://EXAMPLE.ORG/File",
    ],
)
def test_addresses_are_parsed(text: str) -> None:
    address = parse_address(text)
    assert parse_address(str(address)) == address
    assert check_declared(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"https://user:{CANARY}@example.org/file",
        f"https://{CANARY}@example.org/file",
        f"https://example.org/file?token={CANARY}",
        f"https://example.org/file#{CANARY}",
        f"http://user:{CANARY}@example.org/file",
    ],
)
def test_an_address_of_a_manifest_holds_nothing_secret(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|fragment|password") as caught:
        check_declared(text)
    assert CANARY not in str(caught.value)


def test_an_address_shows_nothing_secret() -> None:
    address = parse_address(f"https://user:{CANARY}@example.org/file?token={CANARY}")
    assert str(address) == "https://example.org/file"
    assert CANARY not in repr(address)
    assert address.target.endswith(CANARY)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_no_path_leaves_its_directory(path: str) -> None:
    base = parse_address("https://example.org/models/tiny/")
    parts = path.split("/")
    if not all(parts) or "." in parts or ".." in parts:
        with pytest.raises(UnsafeAddressError):
            base.below(path)
        return
    found = base.below(path)
    assert found.path.startswith(base.path)
    assert found.path.count("/") == base.path.count("/") + path.count("/")
    assert found.origin == base.origin
    assert found.path.isascii()
    assert not {"?", "#", " "} & set(found.path)


@given(st.text(max_size=60))
def test_no_redirect_leads_to_what_is_no_address(location: str) -> None:
    base = parse_address("https://example.org/models/tiny?x=y")
    try:
        found = follow(base, location.encode("utf-8", "replace").decode("latin-1"))
    except UnsafeAddressError:
        return
    assert found.scheme in ("https", "http")
    assert parse_address(str(found)).origin == found.origin


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60))), st.integers(0, 60))
def test_ranges_are_a_set_of_bytes(ranges: list[tuple[int, int]], size: int) -> None:
    extents, model = Extents(), set[int]()
    for start, end in ranges:
        extents.add(start, end)
        model |= set(range(start, end))
    assert {byte for start, end in extents for byte in range(start, end)} == model
    assert extents.count == len(model)
    missing = [byte for start, end in extents.missing(size) for byte in range(start, end)]
    assert missing == sorted(set(range(size)) - model)
    reached = extents.reach(0)
    assert set(range(reached)) <= model
    assert reached not in model


@given(st.text(max_size=40))
def test_a_part_lies_in_its_file_or_is_none(text: str) -> None:
    for header in (text, f"bytes {text}"):
        found = range_of({"Content-Range": header})
        assert found is None or (0 <= found[0] <= found[1] and found[1] <= (found[2] or found[1]))


@given(st.text(max_size=12) | st.integers().map(lambda number: f"{number}\x1f"))
def test_a_length_is_a_number_or_none(text: str) -> None:
    found = length_of({"Content-Length": text})
    assert found is None or (found >= 0 and text.strip().isdecimal())
    assert length_of({"Content-Length": text, "Transfer-Encoding": "chunked"}) is None


def test_versions_are_told_apart() -> None:
    one = version_of({"ETag": '"a"', "Last-Modified": "x"}, 5)
    assert one.is_same(Version(5, '"a"', "y"))
    assert not one.is_same(Version(6, '"a"', "x"))
    assert not one.is_same(Version(5, '"b"', "x"))
    assert not one.is_same(Version(5, None, "x"))
    assert Version(5, None, "x").is_same(Version(5, None, "x"))
    assert not Version(5, None, "x").is_same(Version(5, None, None))
    assert version_of({"ETag": 'W/"a"'}, 5).etag is None
