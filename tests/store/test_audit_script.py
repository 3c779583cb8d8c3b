"""The oracle of the other tests is no oracle if it cannot see."""

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from auditing import audit
from builds import build_of
from dis_store import Digest, Root, Store, durability
from trees import Blob, write_text, write_tree

SCRIPT = Path(__file__).with_name("audit_script.py")


@pytest.fixture
def top(store: Store) -> Path:
    """Return the directory of an object in a store that the audit finds sound."""
    inner = write_text(store, "inner")
    digest = write_tree(
        store,
        {"d/file": Blob(b"data"), "tool": Blob(b"t", executable=True)},
        {"ref": (inner, None)},
    )
    derivation = store.add_derivation(b'{"format":1,"type":"derivation"}')
    store.add_realisation(build_of("a", {"out": digest}, derivation=derivation))
    store.set_root("name", Root(digest))
    store.close()
    assert audit(store.path) == []
    return store.object_path(digest)


def in_open_directory(top: Path, change: Callable[[Path], object]) -> None:
    top.chmod(0o755)
    change(top)
    top.chmod(0o555)


def rewrite(path: Path, data: bytes) -> None:
    mode = path.stat().st_mode
    path.chmod(0o644)
    path.write_bytes(data)
    os.utime(path, (1, 1))
    path.chmod(mode)


def manifest(top: Path) -> Path:
    return top.parents[2] / "manifests" / top.parent.name / f"{top.name}.json"


def record(top: Path, room: str) -> Path:
    return next((top.parents[2] / room).rglob("*.json"))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped bit": lambda top: rewrite(top / "d" / "file", b"dat`"),
    "a longer file": lambda top: rewrite(top / "tool", b"tt"),
    "a lost file": lambda top: in_open_directory(top, lambda top: (top / "tool").unlink()),
    "an extra file": lambda top: in_open_directory(top, lambda top: (top / "new").touch()),
    "an extra directory": lambda top: in_open_directory(
        top, lambda top: (top / "new").mkdir(0o555)
    ),
    "a turned reference": lambda top: in_open_directory(top, turn),
    "a file for a reference": lambda top: in_open_directory(top, fill),
    "a writable file": lambda top: (top / "tool").chmod(0o755),
    "a writable directory": lambda top: (top / "d").chmod(0o755),
    "a time": lambda top: os.utime(top / "tool", (2, 2)),
    "a spoiled manifest": lambda top: rewrite(manifest(top), manifest(top).read_bytes() + b" "),
    "a lost manifest": lambda top: manifest(top).unlink(),
    "a lost tree": durability.remove_tree,
    "a spoiled derivation": lambda top: rewrite(record(top, "derivations"), b"{}"),
    "a renamed record": lambda top: record(top, "realisations").rename(
        record(top, "realisations").with_name("other.json")
    ),
    "a root of nothing": lambda top: rewrite(
        record(top, "roots"), Root(Digest.of(b"nothing")).encode()
    ),
    "work that was not finished": lambda top: (top.parents[2] / "tmp" / "x").touch(),
    "a tree that nobody knows": lambda top: (top.parent / Digest.of(b"x")).mkdir(),
    "something in quarantine": lambda top: (top.parents[2] / "quarantine" / "x").touch(),
}


def turn(top: Path) -> None:
    target = (top / "ref").readlink()
    (top / "ref").unlink()
    (top / "ref").symlink_to(top.parent / target)


def fill(top: Path) -> None:
    (top / "ref").unlink()
    (top / "ref").write_bytes(b"inner")


@pytest.mark.parametrize("name", DAMAGES)
def test_the_audit_finds_planted_damage(store: Store, top: Path, name: str) -> None:
    DAMAGES[name](top)
    assert audit(store.path) != []


def test_the_audit_shares_no_code_with_the_store() -> None:
    tree = ast.parse(SCRIPT.read_text())
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        str(node.module).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert imported == {
        "blake3",
        "collections",
        "json",
        "pathlib",
        "sqlite3",
        "stat",
        "sys",
        "typing",
    }
    assert len(SCRIPT.read_text().splitlines()) <= 150
