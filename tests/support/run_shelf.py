"""Made-up runs in a real store, with what a real run has beside it: a log, a record, a root."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bundles import Run
from dis_store import Input, Realisation, Root, Store
from dis_store.digest import Digest


def add_object(store: Store, files: Mapping[str, bytes]) -> Digest:
    """Register an object of the given files."""
    with store.new_tree() as tree:
        for path, data in files.items():
            tree.write_bytes(path, data)
        return tree.register()


@dataclass(frozen=True)
class Shelf:
    """A store with runs."""

    store: Store

    def add(
        self, run: Run, name: str, *, finished_at: str = "2026-01-01T00:00:00.000+00:00"
    ) -> Digest:
        """Register a run with its log and its record, and root it."""
        store = self.store
        generation = add_object(
            store, {"build.log": f"generated {name}\n".encode(), "run_log.json": b'{"records":[]}'}
        )
        bundle = add_object(store, run.files())
        with store.new_tree() as tree:
            tree.write_bytes("build.log", f"assembled {name}\n".encode())
            tree.reference("generation", generation)
            log = tree.register()
        key = Digest.of(bundle.encode())
        store.add_realisation(
            Realisation(
                key=key,
                builder="run",
                outputs={"bundle": bundle, "log": log},
                compared=("bundle",),
                inputs={"results": Input(bundle, None)},
                derivation=None,
                platform={},
                origin="built",
                started_at=finished_at,
                finished_at=finished_at,
                host="",
                user="",
            )
        )
        store.set_root(name, Root(bundle, key=key, created_at=finished_at))
        return bundle


def make_writable(store: Path) -> None:
    """Let pytest remove a store, whose directories are read-only."""
    for directory in store.rglob("*"):
        if directory.is_dir() and not directory.is_symlink():
            directory.chmod(0o755)
