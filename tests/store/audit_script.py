"""Audits a store from outside: knows BLAKE3, JSON and docs/internals/formats/store.md, and none of the store's code.

Usage: audit_script.py STORE [--allow-orphans]

Prints a line for each thing that is wrong and exits with 1 if there is one. An orphan is what a crash may leave for the
next collection: a tree or manifest that is not in the index, or work that was not finished.
"""

import json
import sqlite3
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blake3 import blake3


class Audit:
    def __init__(self, store: Path) -> None:
        self.store = store
        self.problems: list[str] = []
        self.orphans: list[str] = []
        self.rows = self.indexed()

    def run(self) -> None:
        trees = dict(self.sharded("objects"))
        manifests = {name.removesuffix(".json"): path for name, path in self.sharded("manifests")}
        on_disk = trees.keys() & manifests.keys()
        self.problems += [f"{each}: in the index, and not on disk" for each in self.rows - on_disk]
        unknown = (trees.keys() | manifests.keys()) - self.rows
        self.orphans += [f"{each}: on disk, and not in the index" for each in unknown]
        for digest in sorted(self.rows & on_disk):
            self.object(digest, trees[digest], manifests[digest])
        self.records()
        for room in ("tmp", "trash"):
            self.orphans += [f"{room}/{path.name}" for path in (self.store / room).iterdir()]
        quarantined = (self.store / "quarantine").iterdir()
        self.problems += [f"quarantine/{path.name}" for path in quarantined]

    def records(self) -> None:
        for name, path in self.sharded("derivations"):
            self.named_by_content(path, name.removesuffix(".json"))
        for key, directory in self.sharded("realisations"):
            for path in directory.iterdir():
                self.realisation(key, path)
        for path in (self.store / "roots").glob("*.json"):
            self.valid(json.loads(path.read_bytes())["object"], f"the root {path.name}")

    def indexed(self) -> set[str]:
        if not (self.store / "index.sqlite").exists():
            return set()
        connection = sqlite3.connect(self.store / "index.sqlite")
        try:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            return {digest for (digest,) in connection.execute("SELECT digest FROM objects")}
        finally:
            connection.close()

    def sharded(self, room: str) -> Iterator[tuple[str, Path]]:
        for shard in (self.store / room).iterdir():
            for path in shard.iterdir():
                if path.name[:2] != shard.name:
                    self.problems.append(f"{path}: in the wrong shard")
                yield path.name, path

    def object(self, digest: str, tree: Path, manifest: Path) -> None:
        if not self.named_by_content(manifest, digest):
            return
        entries = json.loads(manifest.read_bytes())["entries"]
        if entries != sorted(entries, key=lambda entry: entry["path"].encode()):
            self.problems.append(f"{digest}: its entries are not sorted")
        expected = {entry["path"]: entry for entry in entries}
        directories = {str(parent) for path in expected for parent in Path(path).parents} | {"."}
        for found in [tree, *sorted(tree.rglob("*"))]:
            path = str(found.relative_to(tree))
            if path in directories:
                self.mode(found, stat.S_IFDIR, 0o555)
            elif path in expected:
                self.entry(found, expected.pop(path))
            else:
                self.problems.append(f"{found}: not in the manifest")
        for path in expected:
            self.problems.append(f"{tree / path}: missing")

    def entry(self, found: Path, entry: dict[str, Any]) -> None:
        if "object" in entry:
            self.reference(found, entry)
        elif self.mode(found, stat.S_IFREG, 0o555 if entry.get("executable") else 0o444):
            self.file(found, entry)

    def file(self, found: Path, entry: dict[str, Any]) -> None:
        data = found.read_bytes()
        if len(data) != entry["size"] or blake3(data).hexdigest() != entry["blake3"]:
            self.problems.append(f"{found}: its content is not what the manifest says")
        if found.stat().st_mtime != 1:
            self.problems.append(f"{found}: its time is not 1")

    def reference(self, found: Path, entry: dict[str, Any]) -> None:
        target = self.store / "objects" / entry["object"][:2] / entry["object"]
        if "subpath" in entry:
            target /= entry["subpath"]
        if not found.is_symlink() or found.parent / found.readlink() != self.climbing(
            found, target
        ):
            self.problems.append(f"{found}: does not lead to {target}")
        self.valid(entry["object"], str(found))

    def climbing(self, found: Path, target: Path) -> Path:
        rooms = self.store / "objects"
        up = [".."] * len(found.parent.relative_to(rooms).parts)
        return found.parent.joinpath(*up, target.relative_to(rooms))

    def realisation(self, key: str, path: Path) -> None:
        record = json.loads(path.read_bytes())
        if record["key"] != key or f"{record['build']}.json" != path.name:
            self.problems.append(f"{path}: belongs elsewhere")
        for output in record["outputs"].values():
            self.valid(output, str(path))

    def valid(self, digest: str, whose: str) -> None:
        if digest not in self.rows:
            self.problems.append(f"{whose}: names {digest}, which is not in the index")

    def named_by_content(self, path: Path, digest: str) -> bool:
        if blake3(path.read_bytes()).hexdigest() == digest:
            return True
        self.problems.append(f"{path}: its BLAKE3 is not its name")
        return False

    def mode(self, path: Path, kind: int, permissions: int) -> bool:
        mode = path.lstat().st_mode
        if mode == kind | permissions:
            return True
        self.problems.append(f"{path}: its mode is {mode:o}")
        return False


def main(arguments: list[str]) -> int:
    audit = Audit(Path(arguments[0]).absolute())
    audit.run()
    wrong = audit.problems + ([] if "--allow-orphans" in arguments else audit.orphans)
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
