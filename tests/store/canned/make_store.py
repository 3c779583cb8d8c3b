"""Makes the canned stores of this directory: `make_store.py`, with the packages of the checkout on `PYTHONPATH`.

Writes `index-N.tar.gz` beside itself, where N is the version of the index that the code at hand makes. Run it once for
each version, when the code begins to make it; what is written then stays, and `test_older_stores.py` opens it with the
code of its day.
"""

import gzip
import json
import tarfile
import tempfile
from pathlib import Path

from dis_store import Digest, Input, Realisation, Root, Store, add_path
from dis_store.index_schema import VERSION

SHARDS = {
    "model-1.safetensors": {"a": [1, 2, 3, 4], "b": [5]},
    "model-2.safetensors": {"c": [6, 7], "d": []},
}
TEXTS = {"text": b"hello\n", "bin/tool": b"#!/bin/sh\n"}
DERIVATION = b'{"format":1,"inputs":{},"name":"canned","type":"derivation"}'
KEY = Digest.of(b"the key of the canned build")
PLAN = Digest.of(b"the key of the canned plan")


def main() -> None:
    """Write the store of the present version."""
    target = Path(__file__).with_name(f"index-{VERSION}.tar.gz")
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "store"
        with Store.open(place) as store:
            fill(store)
        with gzip.GzipFile(target, "wb", mtime=0) as packed:
            pack(place, tarfile.open(fileobj=packed, mode="w"))  # noqa: SIM115 - closed by `pack`


def fill(store: Store) -> None:
    """Put one of everything into an empty store."""
    with store.new_tree() as tree:
        for path, tensors in SHARDS.items():
            tree.write_bytes(path, shard(tensors))
        weights = tree.register()
    with store.new_tree() as tree:
        for path, data in TEXTS.items():
            tree.write_bytes(path, data, executable=path.startswith("bin/"))
        tree.reference("weights", weights)
        output = tree.register()
    with tempfile.TemporaryDirectory() as directory:
        # No root keeps it, and nobody has asked for its SHA-256.
        source = Path(directory) / "text"
        source.write_bytes(b"no root keeps this\n")
        add_path(store, source)
    derivation = store.add_derivation(DERIVATION)
    store.remember_outputs({derivation: {"out": output}})
    store.add_realisation(
        Realisation(
            key=KEY,
            builder="canned",
            outputs={"out": output},
            compared=("out",),
            inputs={"weights": Input(weights, None)},
            derivation=derivation,
            platform={"class": "any", "facts": {}},
            origin="built",
            started_at="2026-11-29T12:00:00+00:00",
            finished_at="2026-11-29T12:00:01+00:00",
            host="a-host",
            user="a-user",
            build="000102030405060708090a0b0c0d0e0f",
        )
    )
    store.remember_plan(PLAN, "the answer", [output])
    store.set_root("canned", Root(output, derivation, KEY, label="a canned store"))


def shard(tensors: dict[str, list[int]]) -> bytes:
    """Return a safetensors file of U8 vectors."""
    header, data = {}, b""
    for name, values in tensors.items():
        span = [len(data), len(data) + len(values)]
        header[name] = {"dtype": "U8", "shape": [len(values)], "data_offsets": span}
        data += bytes(values)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def pack(store: Path, archive: tarfile.TarFile) -> None:
    """Pack a closed store, without what says who packed it."""
    with archive:
        for path in sorted(store.rglob("*")):
            if path.name.endswith("-shm"):
                continue
            member = archive.gettarinfo(path, path.relative_to(store).as_posix())
            # Hard links of `links/` stay what they are; owners are nobody's business.
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            if member.isreg():
                with path.open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)


if __name__ == "__main__":
    main()
