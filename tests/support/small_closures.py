"""A small closure of the kinds of objects and files that travel differently."""

import random
from pathlib import Path

from dis_derivations.distribution.kept import Kept, kept_by
from dis_store import Root, Store
from dis_store.digest import Digest

LARGE_BYTES = 3 << 20


def write_closure(store: Store, *, seed: int = 1) -> Digest:
    """Register an object with a large file, a script, an empty file and a reference to another one; return it."""
    chance = random.Random(seed)  # noqa: S311 - bytes that differ
    with store.new_tree() as tree:
        tree.write_bytes("model.bin", chance.randbytes(LARGE_BYTES))
        tree.write_bytes("config.json", b'{"seed":%d}' % seed)
        inner = tree.register()
    with store.new_tree() as tree:
        tree.write_bytes("bin/run", b"#!/bin/sh\n", executable=True)
        tree.write_bytes("empty", b"")
        tree.write_bytes("same", b'{"seed":%d}' % seed)
        tree.reference("model", inner)
        tree.reference("only/config.json", inner, "config.json")
        return tree.register()


def kept_closure(store: Store, *, seed: int = 1) -> Kept:
    """Return what a push of such an object sends."""
    return kept_by(store, Root(write_closure(store, seed=seed)), outputs_only=False)


def files_of(store: Store, digest: Digest) -> dict[str, bytes]:
    """Return the content of every file that an object shows."""
    return {each.path: Path(each.real).read_bytes() for each in store.files(digest)}
