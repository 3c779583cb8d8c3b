"""The documents of images, read strictly: what is right, and every way to lie."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.images.image_documents import (
    MAX_DOCUMENT_BYTES,
    parse_config,
    parse_index,
    parse_manifest,
)
from dis_store.errors import DisError, InvalidInputError, UnsupportedError
from images import CONFIG, INDEX, LAYER, MANIFEST, sha256

DIGEST = sha256(b"layer")
Json = dict[str, Any]


def blob(media_type: str = f"{LAYER}+gzip", **members: Any) -> Json:
    return {"mediaType": media_type, "digest": DIGEST, "size": 5, **members}


def a_manifest(**members: Any) -> Json:
    config = {"mediaType": CONFIG, "digest": sha256(b"config"), "size": 6}
    layers = [blob()]
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": layers,
        **members,
    }


def a_config(**members: Any) -> Json:
    rootfs = {"type": "layers", "diff_ids": [DIGEST]}
    return {"os": "linux", "architecture": "amd64", "rootfs": rootfs, "config": {}, **members}


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def test_a_manifest_names_its_configuration_and_its_layers_in_order() -> None:
    layers = [
        blob(f"{LAYER}{packing}", digest=sha256(packing.encode()))
        for packing in ("", "+gzip", "+zstd")
    ]
    found = parse_manifest(encoded(a_manifest(layers=layers)), "it")
    assert [str(layer.digest) for layer in found.layers] == [each["digest"] for each in layers]
    assert found.config.size == 6


def test_an_image_of_dockers_own_types_is_an_image() -> None:
    docker = "application/vnd.docker"
    manifest = a_manifest(
        mediaType=f"{docker}.distribution.manifest.v2+json",
        config={"mediaType": f"{docker}.container.image.v1+json", "digest": DIGEST, "size": 5},
        layers=[blob(f"{docker}.image.rootfs.diff.tar.gzip", digest=sha256(b"other"))],
    )
    assert len(parse_manifest(encoded(manifest), "it").layers) == 1


def test_fields_that_are_not_known_mean_nothing() -> None:
    odd = a_manifest(artifactType="a/b", subject=blob(), unknown={"a": [1]})
    odd["layers"][0]["urls"] = ["https://example.org/other"]
    assert parse_manifest(encoded(odd), "it") == parse_manifest(encoded(a_manifest()), "it")


def test_a_layer_may_be_there_twice_and_is_one_blob() -> None:
    found = parse_manifest(encoded(a_manifest(layers=[blob(), blob()])), "it")
    assert (len(found.layers), len(found.blobs)) == (2, 2)


def test_thousands_of_layers_are_read() -> None:
    layers = [blob(digest=sha256(str(number).encode())) for number in range(5000)]
    assert len(parse_manifest(encoded(a_manifest(layers=layers)), "it").layers) == 5000


REFUSED: Mapping[str, tuple[Callable[[Json], object], str]] = {
    "another version": (lambda d: d.update(schemaVersion=1), "its schemaVersion is 1"),
    "true for a version": (lambda d: d.update(schemaVersion=True), "its schemaVersion is True"),
    "another type": (lambda d: d.update(mediaType=INDEX), "its mediaType is"),
    "two documents in one": (lambda d: d.update(manifests=[]), "an index and a manifest in one"),
    "no configuration": (lambda d: d.pop("config"), "it is no object"),
    "an artifact": (
        lambda d: d["config"].update(mediaType="application/vnd.oci.empty.v1+json"),
        "its configuration is application/vnd.oci.empty",
    ),
    "no layers": (lambda d: d.pop("layers"), "its layers is no list"),
    "an unknown layer": (lambda d: d["layers"][0].update(mediaType="text/plain"), "text/plain"),
    "a foreign layer": (
        lambda d: d["layers"][0].update(
            mediaType="application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
        ),
        "no registry holds",
    ),
    "a digest that is a path": (
        lambda d: d["layers"][0].update(digest="sha256:../../../../etc/passwd"),
        "not a SHA-256 digest",
    ),
    "another digest": (lambda d: d["layers"][0].update(digest=f"sha512:{'a' * 128}"), "not a SHA-256"),
    "capitals": (lambda d: d["layers"][0].update(digest=DIGEST.upper()), "not a SHA-256"),
    "no digest": (lambda d: d["layers"][0].pop("digest"), "not a SHA-256"),
    "a negative size": (lambda d: d["layers"][0].update(size=-1), "its size is -1"),
    "a size that is true": (lambda d: d["layers"][0].update(size=True), "its size is True"),
    "a size beyond all": (lambda d: d["layers"][0].update(size=2**50), "its size is"),
    "a broken size": (lambda d: d["layers"][0].update(size=1.5), "its size is 1.5"),
    "one blob of two sizes": (
        lambda d: d["layers"].append({**d["layers"][0], "size": 6}), "contradicts itself"
    ),
    "one blob of two types": (
        lambda d: d["layers"].append({**d["layers"][0], "mediaType": LAYER}), "contradicts itself"
    ),
    "a layer that is the configuration": (
        lambda d: d["layers"][0].update(digest=d["config"]["digest"]), "contradicts itself"
    ),
    "annotations of numbers": (lambda d: d.update(annotations={"a": 1}), "no map of strings"),
}  # fmt: skip


@pytest.mark.parametrize("lie", REFUSED, ids=str)
def test_a_manifest_with_a_lie_in_it_is_refused(lie: str) -> None:
    change, told = REFUSED[lie]
    document = a_manifest()
    change(document)
    with pytest.raises((InvalidInputError, UnsupportedError)) as caught:
        parse_manifest(encoded(document), "it")
    assert told in str(caught.value)


def test_a_manifest_that_is_too_long_is_refused_unread() -> None:
    with pytest.raises(InvalidInputError, match="too large"):
        parse_manifest(b" " * (MAX_DOCUMENT_BYTES + 1), "it")
    with pytest.raises(InvalidInputError, match="too many objects"):
        parse_manifest(b"[" + b"[],\n" * 250_000 + b"[]]", "it")


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"rootfs": {"type": "layers", "diff_ids": []}}, "it has 0 layers, and the image has 1"),
        ({"rootfs": {"type": "layers", "diff_ids": ["x"]}}, "not a SHA-256"),
        ({"rootfs": {"type": "windows", "diff_ids": [DIGEST]}}, "not made of layers"),
        ({"rootfs": None}, "not made of layers"),
        ({"os": ""}, "what it runs on"),
        ({"architecture": "amd64/v2"}, "what it runs on"),
        ({"variant": "\x1b[2J"}, "what it runs on"),
        ({"config": {"Env": "A=1"}}, "its Env is no list of strings"),
        ({"config": {"User": 0}}, "its User is no string"),
        ({"config": []}, "its config is no object"),
    ],
)
def test_a_configuration_with_a_lie_in_it_is_refused(members: Json, told: str) -> None:
    manifest = parse_manifest(encoded(a_manifest()), "it")
    with pytest.raises(InvalidInputError) as caught:
        parse_config(encoded(a_config(**members)), "it", manifest)
    assert told in str(caught.value)


def test_a_configuration_says_how_the_image_is_run() -> None:
    run = {"Env": ["A=1"], "Entrypoint": ["a"], "Cmd": ["b"], "User": "1:1", "WorkingDir": "/w"}
    manifest = parse_manifest(encoded(a_manifest()), "it")
    found = parse_config(encoded(a_config(config=run)), "it", manifest)
    assert (found.environment, found.entrypoint, found.command) == (("A=1",), ("a",), ("b",))
    assert (found.user, found.working_directory, str(found.platform)) == (
        "1:1",
        "/w",
        "linux/amd64",
    )
    assert parse_config(encoded(a_config(config=None)), "it", manifest).user == ""


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["schemaVersion", "config", "layers", "manifests", "digest", "size", "x"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.binary(max_size=200) | json_values.map(encoded))
def test_whatever_comes_is_read_or_refused_and_nothing_else(data: bytes) -> None:
    for parse in (parse_manifest, parse_index):
        try:
            parse(data, "it")
        except DisError as error:
            assert error.exit_code in (2, 5)  # noqa: PT017 - that is all that may happen
