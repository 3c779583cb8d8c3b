"""What `docker save` writes, in both of its forms, and archives that are none."""

import gzip
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from dis_derivations.images.image_reference import image_reference
from dis_derivations.images.platform import Platform
from dis_derivations.images.resolution import ResolvedImage, resolve_image
from dis_derivations.images.saved_archive import open_saved
from dis_derivations.images.source import ImageSource
from dis_derivations.sources.source import WantedFile
from dis_store import Store
from dis_store.errors import BuildError, DisError, InvalidInputError, MismatchError
from images import LayoutMaker, sha256, tar_of

AMD64 = Platform("linux", "amd64")
LAYER = tar_of({"a": b"hello"})
CONFIG = json.dumps(
    {
        "os": "linux",
        "architecture": "amd64",
        "rootfs": {"type": "layers", "diff_ids": [sha256(LAYER)]},
    }
).encode()
ENTRY = {"Config": "c.json", "RepoTags": ["engine:v1"], "Layers": ["l/layer.tar"]}
FILES = [("c.json", CONFIG), ("l/layer.tar", LAYER)]


def member(name: str, data: bytes, kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, target
    return info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)


def archive(path: Path, *members: bytes, end: bytes = bytes(1024)) -> Path:
    path.write_bytes(b"".join(members) + end)
    return path


def saved(path: Path, entries: Sequence[object] = (ENTRY,)) -> Path:
    files = [*FILES, ("manifest.json", json.dumps(entries).encode())]
    return archive(path / "saved.tar", *(member(name, data) for name, data in files))


def resolved(path: Path, name: str = "engine:v1") -> ResolvedImage:
    return resolve_image(open_saved(path, image_reference(name)), AMD64)


def test_an_archive_without_a_manifest_gets_one_that_is_the_same_every_time(tmp_path: Path) -> None:
    found = resolved(saved(tmp_path))
    assert [str(layer.digest) for layer in found.content.layers] == [sha256(LAYER)]
    assert str(found.content.config.digest) == sha256(CONFIG)
    assert resolved(tmp_path / "saved.tar", f"engine@{found.root}") == found


def test_a_layer_that_is_a_link_to_another_is_that_one(tmp_path: Path) -> None:
    config = json.loads(CONFIG)
    config["rootfs"]["diff_ids"] *= 2
    entry = {**ENTRY, "Layers": ["l/layer.tar", "m/layer.tar"]}
    path = archive(
        tmp_path / "saved.tar",
        member("c.json", json.dumps(config).encode()),
        member("l/layer.tar", LAYER),
        member("m/layer.tar", b"", tarfile.SYMTYPE, "../l/layer.tar"),
        member("manifest.json", json.dumps([entry]).encode()),
    )
    assert [str(layer.digest) for layer in resolved(path).content.layers] == [sha256(LAYER)] * 2


def test_a_layout_in_an_archive_is_the_layout(tmp_path: Path) -> None:
    layout = LayoutMaker(tmp_path / "layout")
    image = layout.image([LAYER], packing="+zstd")
    layout.finish(image)
    with tarfile.open(tmp_path / "layout.tar", "w") as tar:
        tar.add(layout.directory, ".")
    found = resolved(tmp_path / "layout.tar", f"engine@{image['digest']}")
    assert str(found.manifest.digest) == image["digest"]


def test_an_archive_gives_its_files_to_a_tree(tmp_path: Path) -> None:
    source = ImageSource("engine:v1", saved(tmp_path))
    paths = source.listing()
    with Store.open(tmp_path / "store") as store, store.new_tree() as tree:
        written = source.fetch([WantedFile(path) for path in paths], tree, lambda: None)
    assert {str(file.sha256) for file in written} >= {sha256(LAYER), sha256(CONFIG)}


def test_an_archive_of_another_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="it holds engine:v1"):
        resolved(saved(tmp_path), "other:v1")
    with pytest.raises(MismatchError, match="does not hold"):
        resolved(saved(tmp_path), f"engine@{sha256(b'another')}")


def test_a_layer_that_is_not_what_the_configuration_says_is_told_by_docker_and_bytes_by_us(
    tmp_path: Path,
) -> None:
    place = open_saved(saved(tmp_path), image_reference("engine:v1"))
    image = resolve_image(place, AMD64)
    data = (tmp_path / "saved.tar").read_bytes()
    (tmp_path / "saved.tar").write_bytes(data.replace(b"hello", b"jello"))
    with (
        Store.open(tmp_path / "store") as store,
        store.new_tree() as tree,
        pytest.raises(DisError, match="not what was expected"),
    ):
        place.write(image.content.layers[0], "layer", tree, lambda _: None)


def huge_header() -> bytes:
    info = tarfile.TarInfo("x")
    info.size, info.type = 2**33, tarfile.XHDTYPE
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (gzip.compress(LAYER), "compressed"),
        (b"no archive at all" * 100, "no archive of an image"),
        (LAYER, "neither oci-layout nor manifest.json"),
        (member("a", b"1") + member("a", b"2") + bytes(1024), "holds 'a' twice"),
        (member("a", b"", tarfile.CHRTYPE) + bytes(1024), "no regular file"),
        (member("a", b"x" * 2000)[:-1024], "ends before"),
        (huge_header() + bytes(4096), "header of it is too long"),
        (member("manifest.json", b"{}") + bytes(1024), "no list of images"),
        (member("manifest.json", b'[{"Config":1,"Layers":[]}]') + bytes(1024), "no list of images"),
    ],
    # The bytes of some differ from second to second, and workers must agree on names.
    ids=range(9),
)
def test_what_is_no_archive_of_an_image_is_refused(
    tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "saved.tar").write_bytes(content)
    with pytest.raises(DisError, match=told):
        resolved(tmp_path / "saved.tar")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "missing"])
def test_a_name_in_an_archive_is_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(BuildError, match="has no file"):
        resolved(saved(tmp_path, [{**ENTRY, "Config": name}]))


def test_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "saved.tar",
        member("a", b"", tarfile.SYMTYPE, "b"),
        member("b", b"", tarfile.SYMTYPE, "a"),
        member("manifest.json", json.dumps([{**ENTRY, "Config": "a"}]).encode()),
    )
    with pytest.raises(BuildError, match="has no file 'a'"):
        resolved(path)


def test_a_tar_file_made_by_the_standard_library_is_read(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in [*FILES, ("manifest.json", json.dumps([ENTRY]).encode())]:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1.5  # a time that needs a header of its own
            tar.addfile(info, io.BytesIO(data))
    (tmp_path / "saved.tar").write_bytes(out.getvalue())
    assert len(resolved(tmp_path / "saved.tar").content.layers) == 1
