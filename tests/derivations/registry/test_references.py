"""References to registries: what is written is what is meant, and nothing else gets through."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.registry.reference import (
    RegistryReference,
    RegistryReferenceError,
    check_host,
    check_tag,
    parse_image_reference,
    parse_reference,
)
from dis_store.digest import Sha256

DIGEST = Sha256(f"sha256:{'ab' * 32}")
_COMPONENT = st.from_regex(r"[a-z0-9]{1,8}([._-][a-z0-9]{1,4})?", fullmatch=True)
REFERENCES = st.builds(
    RegistryReference,
    host=st.sampled_from(["localhost:5000", "127.0.0.1", "ghcr.io", "[::1]:5000", "a-b.example:1"]),
    repository=st.lists(_COMPONENT, min_size=1, max_size=4).map("/".join),
    tag=st.none() | st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=20),
    digest=st.none() | st.just(DIGEST),
)


@given(REFERENCES)
def test_a_reference_is_read_as_it_is_written(reference: RegistryReference) -> None:
    assert parse_reference(str(reference)) == reference
    assert parse_image_reference(str(reference)) == reference


@given(st.text(max_size=60))
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    for parse in (parse_reference, parse_image_reference):
        try:
            found = parse(text)
        except RegistryReferenceError:
            continue
        assert parse_reference(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "oci://",
        "oci://host",
        "oci://host/",
        "oci:///x",
        "host/x",
        "http://host/x",
        "oci://host/X",
        "oci://host/../x",
        "oci://host/a/../x",
        "oci://host/a//b",
        "oci://host/a/",
        "oci://host/.a",
        "oci://HOST/a",
        "oci://user@host/a",
        "oci://host:0/a",
        "oci://host:65536/a",
        "oci://host:+1/a",
        "oci://host:/a",
        "oci://ho..st/a",
        "oci://host./a",
        "oci://[::1/a",
        "oci://[::1]x/a",
        "oci://[evil]/a",
        "oci://host/a:",
        "oci://host/a:-x",
        "oci://host/a:b:c",
        "oci://host/a@",
        "oci://host/a@sha256:12",
        f"oci://host/a@sha512:{'a' * 128}",
        f"oci://host/a@{DIGEST}@{DIGEST}",
        f"oci://host/a:{'x' * 129}",
        f"oci://host/{'a' * 256}",
        "oci://host/a?x=1",
        "oci://host/a#x",
        "oci://host/a b",
        "oci://host/a\n",
        "oci://host/%2e%2e",
        "oci://host/é",
    ],
)
def test_what_is_malformed_is_refused(text: str) -> None:
    with pytest.raises(RegistryReferenceError):
        parse_reference(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("busybox", "oci://docker.io/library/busybox"),
        ("busybox:1.36", "oci://docker.io/library/busybox:1.36"),
        ("me/app", "oci://docker.io/me/app"),
        (f"vllm/vllm-openai@{DIGEST}", f"oci://docker.io/vllm/vllm-openai@{DIGEST}"),
        ("localhost/x:1", "oci://localhost/x:1"),
        (f"ghcr.io/a/b:1@{DIGEST}", f"oci://ghcr.io/a/b:1@{DIGEST}"),
        ("docker://quay.io/a/b", "oci://quay.io/a/b"),
    ],
)
def test_images_are_named_as_docker_names_them(text: str, expected: str) -> None:
    assert str(parse_image_reference(text)) == expected


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("oci://localhost:5000/a", "http://localhost:5000/v2/x"),
        ("oci://127.0.0.1/a", "http://127.0.0.1/v2/x"),
        ("oci://[::1]:5000/a", "http://[::1]:5000/v2/x"),
        ("oci://10.0.0.1:5000/a", "https://10.0.0.1:5000/v2/x"),
        ("oci://localhost.example/a", "https://localhost.example/v2/x"),
        ("oci://docker.io/a/b", "https://registry-1.docker.io/v2/x"),
    ],
)
def test_only_this_machine_is_spoken_to_without_encryption(text: str, address: str) -> None:
    assert str(parse_reference(text).address("x")) == address


def test_the_digest_comes_before_the_tag() -> None:
    assert parse_reference(f"oci://host/a:b@{DIGEST}").target == DIGEST
    assert parse_reference("oci://host/a:b").target == "b"
    with pytest.raises(RegistryReferenceError):
        _ = parse_reference("oci://host/a").target


def test_tags_and_hosts_alone_are_checked_as_well() -> None:
    assert check_tag("one") == "one"
    assert check_host("ghcr.io") == "ghcr.io"
    with pytest.raises(RegistryReferenceError):
        check_tag("a/b")
    with pytest.raises(RegistryReferenceError):
        check_host("ghcr.io/x")
