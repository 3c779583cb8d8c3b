"""From a name to one image: through indexes, by platform, with every document compared."""

from pathlib import Path
from typing import Any

import pytest

from dis_derivations.images.image_reference import image_reference
from dis_derivations.images.layout_place import DirectoryFiles, LayoutPlace
from dis_derivations.images.platform import Platform, platform_of
from dis_derivations.images.resolution import ResolvedImage, resolve_image
from dis_store.errors import DisError, InvalidInputError, MismatchError, UnsupportedError
from images import CONFIG, Json, LayoutMaker, named, platform, tar_of

AMD64, ARM64 = Platform("linux", "amd64"), Platform("linux", "arm64", "v8")
LAYER = tar_of({"a": b"hello"})


@pytest.fixture
def layout(tmp_path: Path) -> LayoutMaker:
    return LayoutMaker(tmp_path / "layout")


def resolved(layout: LayoutMaker, name: str, wanted: Platform = AMD64) -> ResolvedImage:
    place = LayoutPlace(DirectoryFiles(layout.directory), image_reference(name))
    return resolve_image(place, wanted)


def pin(descriptor: Json) -> str:
    return f"localhost/engine@{descriptor['digest']}"


def test_an_image_is_found_by_its_own_digest_whatever_it_runs_on(layout: LayoutMaker) -> None:
    image = layout.image([LAYER], architecture="s390x")
    layout.finish(image)
    found = resolved(layout, pin(image))
    assert str(found.manifest.digest) == image["digest"] == found.root
    assert str(found.config.platform) == "linux/s390x"


def test_an_index_gives_the_image_of_the_platform(layout: LayoutMaker) -> None:
    arm = layout.image([LAYER], architecture="arm64", platform=platform("arm64"))
    amd = layout.image([LAYER], platform=platform("amd64"))
    index = layout.index(arm, amd)
    layout.finish(index)
    assert str(resolved(layout, pin(index)).manifest.digest) == amd["digest"]
    found = resolved(layout, pin(index), ARM64)
    assert str(found.manifest.digest) == arm["digest"]
    assert found.to_lock()["digest"] == index["digest"]
    assert platform_of(found.to_lock()["platform"]).fits(ARM64)


def test_attestations_beside_images_are_passed_over(layout: LayoutMaker) -> None:
    said = {"vnd.docker.reference.type": "attestation-manifest"}
    image = layout.image([LAYER], platform=platform("amd64"))
    marked = layout.image([], platform=platform("amd64"), annotations=said)
    unknown = layout.image([], platform=platform("unknown", "unknown"))
    index = layout.index(marked, unknown, image)
    layout.finish(index)
    assert str(resolved(layout, pin(index)).manifest.digest) == image["digest"]


def test_an_index_in_an_index_is_followed(layout: LayoutMaker) -> None:
    image = layout.image([LAYER], platform=platform("amd64"))
    other = layout.image([LAYER], architecture="arm64", platform=platform("arm64"))
    index = layout.index(other, layout.index(image))
    layout.finish(index)
    assert str(resolved(layout, pin(index)).manifest.digest) == image["digest"]


def test_indexes_that_are_nested_too_deep_are_refused(layout: LayoutMaker) -> None:
    entry = layout.image([LAYER], platform=platform("amd64"))
    for _ in range(6):
        entry = layout.index(entry)
    layout.finish(entry)
    with pytest.raises(UnsupportedError, match="nested too deep"):
        resolved(layout, pin(entry))


def test_an_index_without_the_platform_says_what_it_has(layout: LayoutMaker) -> None:
    arm = layout.image([LAYER], architecture="arm64", platform=platform("arm64"))
    index = layout.index(arm)
    layout.finish(index)
    with pytest.raises(InvalidInputError, match="it has images for linux/arm64") as caught:
        resolved(layout, pin(index))
    assert "own digest" in str(caught.value.hint)


def test_an_index_that_lies_of_the_platform_is_refused(layout: LayoutMaker) -> None:
    index = layout.index(layout.image([LAYER], architecture="arm64", platform=platform("amd64")))
    layout.finish(index)
    with pytest.raises(InvalidInputError, match=r"says linux/arm64|it says linux/arm64"):
        resolved(layout, pin(index))


def test_an_index_that_lies_of_the_size_is_refused(layout: LayoutMaker) -> None:
    image = layout.image([LAYER], platform=platform("amd64"))
    index = layout.index({**image, "size": image["size"] + 1})
    layout.finish(index)
    with pytest.raises(InvalidInputError, match="is not what its index says"):
        resolved(layout, pin(index))


def test_a_tag_is_looked_for_in_the_index_of_the_layout(layout: LayoutMaker) -> None:
    one = layout.image([LAYER], annotations=named("v1"))
    two = layout.image([LAYER, LAYER], annotations=named("v2"))
    layout.finish(one, two)
    assert str(resolved(layout, "localhost/engine:v2").manifest.digest) == two["digest"]
    with pytest.raises(InvalidInputError, match="it has v1, v2"):
        resolved(layout, "localhost/engine:v3")


def test_the_only_image_of_a_layout_needs_no_name(layout: LayoutMaker) -> None:
    image = layout.image([LAYER])
    layout.finish(image)
    assert str(resolved(layout, "localhost/engine").manifest.digest) == image["digest"]


def test_a_layout_with_two_images_under_one_name_is_refused(layout: LayoutMaker) -> None:
    layout.finish(
        layout.image([LAYER], annotations=named("v1")),
        layout.image([LAYER, LAYER], annotations=named("v1")),
    )
    with pytest.raises(InvalidInputError, match="has several"):
        resolved(layout, "localhost/engine:v1")


def spoil_manifest(layout: LayoutMaker, image: Json) -> None:
    path = layout.path(image["digest"])
    path.write_bytes(path.read_bytes().replace(b"schemaVersion", b"schemaversion"))


def drop_manifest(layout: LayoutMaker, image: Json) -> None:
    layout.path(image["digest"]).unlink()


def no_layout(layout: LayoutMaker, image: Json) -> None:
    (layout.directory / "oci-layout").write_text('{"imageLayoutVersion":"2.0.0"}')


def a_pipe(layout: LayoutMaker, image: Json) -> None:
    import os

    layout.path(image["digest"]).unlink()
    os.mkfifo(layout.path(image["digest"]))


def docker_of_old(layout: LayoutMaker, image: Json) -> None:
    layout.path(image["digest"]).write_text('{"schemaVersion":1}')


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (spoil_manifest, MismatchError),
        (drop_manifest, DisError),
        (no_layout, InvalidInputError),
        (a_pipe, DisError),
        (docker_of_old, MismatchError),
    ],
)
def test_a_layout_that_is_not_right_is_refused(
    layout: LayoutMaker, spoil: Any, error: type[DisError]
) -> None:
    image = layout.image([LAYER])
    layout.finish(image)
    spoil(layout, image)
    with pytest.raises(error):
        resolved(layout, pin(image))


def test_an_image_of_dockers_first_form_is_refused_by_name(layout: LayoutMaker) -> None:
    old = layout.document({"schemaVersion": 1, "fsLayers": []}, "application/json")
    layout.finish(old)
    with pytest.raises(UnsupportedError, match="Docker's first form"):
        resolved(layout, pin(old))


def test_a_configuration_of_another_size_than_is_said_is_refused(layout: LayoutMaker) -> None:
    image = layout.image([LAYER], change=lambda manifest: manifest["config"].update(size=1))
    layout.finish(image)
    with pytest.raises(MismatchError, match="should have 1"):
        resolved(layout, pin(image))


def test_a_configuration_of_other_layers_is_refused(layout: LayoutMaker) -> None:
    other = layout.document(
        {"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": []}},
        CONFIG,
    )
    image = layout.image([LAYER], change=lambda manifest: manifest.update(config=other))
    layout.finish(image)
    with pytest.raises(InvalidInputError, match="does not belong to its image"):
        resolved(layout, pin(image))
