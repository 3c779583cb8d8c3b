"""docs/internals/formats/bundle.md and archive.md: their worked examples are what the quickstart's run is.

Recomputed from what the command prints, with the standard library and BLAKE3 alone.
"""

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from command_line import ROOT, call
from run_shelf import make_writable

FORMATS = ROOT / "docs/internals/formats"
BUNDLE, ARCHIVE = ((FORMATS / f"{name}.md").read_text("utf-8") for name in ("bundle", "archive"))
BLOCKS = re.compile(r"```json\n(.*?)\n```", re.DOTALL)


@pytest.fixture(scope="module")
def packed_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where archives are written."""
    return tmp_path_factory.mktemp("quickstart")


@pytest.fixture(scope="module")
def archive(packed_at: Path) -> Iterator[tuple[str, bytes, bytes]]:
    """Return the digest of the quickstart's bundle, the archive of the run, decompressed, and the file of requests."""
    place = packed_at
    store = ["--store", str(place / "store")]
    config = str(ROOT / "configs/quickstart.json")
    built = call(["realize", config, "--name", "first", "--progress", "none", *store])
    assert built.code == 0, built.err
    file = place / "first.tar.gz"
    packed = call(["bundle", "first", "--output", str(file), *store])
    assert packed.code == 0, packed.err
    document = json.loads(BLOCKS.findall(BUNDLE)[1])
    requests = call(["cat", document["requests_digest"], "requests.json", *store])
    part = place / "part.tar.gz"
    assert call(["bundle", "first", "--include", "tokens", "--output", str(part), *store]).code == 0
    yield Path(built.out.strip()).name, gzip.decompress(file.read_bytes()), requests.out.encode()
    make_writable(place)


def members(archive: bytes) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as stream:
        for member in stream:
            data = stream.extractfile(member)
            assert data is not None
            found[member.name] = data.read()
    return found


def test_the_bundle_of_the_example_is_the_one_of_the_quickstart(
    archive: tuple[str, bytes, bytes],
) -> None:
    digest, packed, requests = archive
    request, bundle, preimage = BLOCKS.findall(BUNDLE)
    files = members(packed)
    document = json.loads(bundle)
    assert f"on every machine, `{digest}`" in BUNDLE
    assert files["run/bundle.json"] == bundle.encode()
    assert json.loads(requests)["requests"][0] == json.loads(request)
    assert f"of its `run_id`, {len(preimage)} bytes:" in BUNDLE
    names = ("lock_id", "manifest_id", "platform", "requests_digest")
    assert json.loads(preimage) == {name: document[name] for name in names}
    of_run = hashlib.sha256(preimage.encode()).hexdigest()
    assert f"of it is `{of_run}`" in BUNDLE
    assert document["run_id"] == f"sha256:{of_run}"
    of_manifest = hashlib.sha256(files["run/manifest.used.json"]).hexdigest()
    assert document["manifest_id"] == f"sha256:{of_manifest}"


def test_the_archive_of_the_example_is_the_one_of_the_quickstart(
    archive: tuple[str, bytes, bytes], packed_at: Path
) -> None:
    digest, packed, _ = archive
    files = members(packed)
    assert (
        f"has {len(packed)} bytes and the BLAKE3 digest `{blake3(packed).hexdigest()}`" in ARCHIVE
    )
    rows = re.findall(r"^\| `([^`<]+)` \| ([0-9]+) \|$", ARCHIVE, re.MULTILINE)
    assert [(name, int(size)) for name, size in rows] == [
        (name, len(data)) for name, data in files.items()
    ]
    part = members(gzip.decompress((packed_at / "part.tar.gz").read_bytes()))
    assert BLOCKS.findall(ARCHIVE) == [
        files["archive.json"].decode(),
        part["archive.json"].decode(),
        part["run/left_out.json"].decode(),
    ]
    assert json.loads(files["archive.json"])["bundle"] == digest


def test_the_example_can_be_checked_by_hand(archive: tuple[str, bytes, bytes]) -> None:
    """As the page says: each tree manifest has the digest that is its name, and says that of each file."""
    digest, packed, _ = archive
    files = members(packed)
    trees = {name: data for name, data in files.items() if name.startswith("manifests/")}
    for name, data in trees.items():
        assert name == f"manifests/{blake3(data).hexdigest()}.json"
    own = json.loads(trees[f"manifests/{digest}.json"])["entries"]
    stated = {entry["path"]: entry["blake3"] for entry in own if "blake3" in entry}
    assert stated == {path: blake3(files[f"run/{path}"]).hexdigest() for path in stated}
    assert {"bundle.json", "manifest.used.json", "lock.used.json", "tokens.json"} <= set(stated)
