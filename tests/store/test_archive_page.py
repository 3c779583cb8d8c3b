"""docs/internals/formats/closures.md: its worked example is what an export writes, byte for byte."""

import io
import re
import tarfile
from pathlib import Path

from dis_store import Digest, Store, export_closures
from trees import Blob, write_tree

PAGE = (Path(__file__).parents[2] / "docs/internals/formats/closures.md").read_text("utf-8")
(HEADER,) = re.findall(r"```json\n(.*?)\n```", PAGE, re.DOTALL)
DOCUMENT = b'{"signed":"an example"}'


def test_the_example_of_an_archive_is_what_an_export_writes(store: Store) -> None:
    digest = write_tree(store, {"greeting.txt": Blob(b"hello\n")})
    store.add_signature(digest, DOCUMENT)
    stream = io.BytesIO()
    done = export_closures(store, [digest], stream)
    with tarfile.open(fileobj=io.BytesIO(stream.getvalue())) as archive:
        members = archive.getmembers()
        header = archive.extractfile(members[0])
        assert header is not None
        assert header.read().decode() == HEADER
    names = [
        "archive.json",
        f"manifests/{digest}.json",
        f"signatures/{Digest.of(DOCUMENT)}.json",
        f"files/{Digest.of(b'hello' + bytes([10]))}",
    ]
    assert [each.name for each in members] == names
    assert all(f"`{name}`" in PAGE for name in names)
    assert DOCUMENT.decode() in PAGE
    assert f"The archive has {done.size} bytes, and its BLAKE3 is `{done.blake3}`" in PAGE
