"""The example on the page of the format is what the code makes."""

import re
from pathlib import Path

from dis_derivations.images.image_layout import INDEX_FILE, LAYOUT_BYTES, LAYOUT_FILE, blob_path
from dis_derivations.images.stored_image import is_image, read_stored
from dis_derivations.images.tar_stream import TAR_END, padding, tar_header
from dis_store import Store
from dis_store.digest import Sha256

PAGE = Path(__file__).parents[3] / "docs/internals/formats/image.md"


def test_the_example_of_the_page_is_an_image_with_these_digests(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    example = text.partition("## Example")[2].partition("\n## ")[0]
    manifest, config, index = (
        block.encode() for block in re.findall(r"```json\n(.*)\n```", example)
    )
    layer = tar_header("hello", 6) + b"hello\n" + padding(6) + TAR_END
    with Store.open(tmp_path / "store") as store:
        with store.new_tree() as tree:
            tree.write_bytes(LAYOUT_FILE, LAYOUT_BYTES)
            tree.write_bytes(INDEX_FILE, index)
            for data in (manifest, config, layer):
                tree.write_bytes(blob_path(Sha256.of(data)), data)
            digest = tree.register()
        assert is_image(store, digest)
        found = read_stored(store, digest)
    assert f"The object: `{digest}`" in text
    assert f"`{found.image.manifest.digest}`:" in text
    assert f"`{found.id}`, which is what Docker calls the image" in text
