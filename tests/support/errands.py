"""Commands that change a store, each with what must be true of the store whatever happens to the command."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from builds import build_of
from command_line import call
from dis_store import Digest, Root, Store
from tiny_runs import write_manifest
from trees import Blob, write_text, write_tree

_SCRIPT = Path(__file__).parents[1] / "store" / "audit_script.py"
_PATH = re.compile(r"^/.*/objects/../([0-9a-f]{64})$")
_DONE = re.compile(r'"event": "done"')


@dataclass(frozen=True)
class Inputs:
    """What the commands read; nothing may change it.

    Attributes:
        tree: A directory of files.
        manifest: A locked manifest of a tiny run.
        archive: An archive of a closure.
    """

    tree: Path
    manifest: Path
    archive: Path


def write_inputs(place: Path) -> Inputs:
    """Make all inputs in a directory."""
    tree = place / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    contents = {
        "a": b"inner",
        "deep/b": b"b" * 5000,
        "deep/er/c": b"",
        "d": bytes(range(256)) * 300,
    }
    for name, data in contents.items():
        (tree / name).write_bytes(data)
    (tree / "d").chmod(0o755)
    manifest = write_manifest(place / "run", prompts=("abba",))
    scratch, archive = place / "scratch", place / "closure.tar"
    with Store.open(scratch) as store:
        part = write_text(store, "a part")
        write_tree(store, {"x/y": Blob(b"y" * 3000), "z": Blob(b"inner")}, {"part": (part, None)})
    options = ["--store", str(scratch), "--quiet"]
    for argv in (
        ["store", "export", str(_last_object(scratch)), "--output", str(archive), *options],
        ["lock", str(manifest), *options],
    ):
        outcome = call(argv)
        assert outcome.code == 0, outcome
    shutil.rmtree(scratch)
    return Inputs(tree, manifest, archive)


def _last_object(store: Path) -> Digest:
    with Store.open(store) as opened:
        return opened.objects()[-1]


@dataclass(frozen=True)
class Facts:
    """What is true of a store.

    Attributes:
        objects: These are in the index, and whole.
        gone: These are not.
        roots: These keep something.
        builds: At least so many build records are there.
        blamed: Digests of what may be named in a complaint.
    """

    objects: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    roots: frozenset[str] = frozenset()
    builds: int = 0
    blamed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Expectation:
    """What is true all the time, and what is true once the command has ended well."""

    always: Facts
    afterwards: Facts


@dataclass(frozen=True)
class Errand:
    """A command.

    Attributes:
        name: What it is called in the tests.
        argv: Makes its arguments, given the inputs and a directory for what it writes beside the store.
        prepare: Fills an empty store with what the command needs, and tells what to expect.
        codes: How it may end when nothing happens to it.
    """

    name: str
    argv: Callable[[Inputs, Path], Sequence[str | Path]]
    prepare: Callable[[Store], Expectation]
    codes: Collection[int] = (0,)


def fill(store: Store) -> Facts:
    """Put in what everything must leave alone: a root, what it refers to, a build, a derivation."""
    inner = write_text(store, "inner")
    outer = write_tree(
        store,
        {"d/f": Blob(b"data" * 500), "tool": Blob(b"inner", executable=True)},
        {"r": (inner, None)},
    )
    derivation = store.add_derivation(b'{"format":1,"inputs":{},"type":"derivation"}')
    build = store.add_realisation(build_of("kept", {"out": outer}, derivation=derivation))
    store.set_root("kept", Root(outer, key=build.key, derivation=derivation))
    return Facts(frozenset({inner, outer}), roots=frozenset({"kept"}), builds=1)


def _fill_for_add(store: Store) -> Expectation:
    always = fill(store)
    return Expectation(always, Facts(always.objects, roots=frozenset({"kept", "added"})))


def _fill_for_run(store: Store) -> Expectation:
    always = fill(store)
    return Expectation(
        always, Facts(always.objects, roots=frozenset({"kept", "run"}), builds=always.builds + 4)
    )


def _fill_for_import(store: Store) -> Expectation:
    always = fill(store)
    return Expectation(always, always)


def _fill_for_collection(store: Store) -> Expectation:
    always = fill(store)
    dead = [write_tree(store, {"f": Blob(b"%d" % each), "s": Blob(b"inner")}) for each in range(6)]
    above = write_tree(store, {}, {"r": (dead[0], None)})
    derivation = store.add_derivation(b'{"format":1,"inputs":{},"name":"dead","type":"derivation"}')
    store.add_realisation(build_of("dead", {"out": above}, derivation=derivation))
    store.set_root("given up", Root(dead[1]))
    store.remove_root("given up")
    return Expectation(
        always, Facts(always.objects, gone=frozenset({*dead, above}), roots=always.roots, builds=1)
    )


def _fill_and_lose_index(store: Store) -> Expectation:
    always = fill(store)
    store.close()
    for path in store.path.glob("index.sqlite*"):
        path.unlink()
    return Expectation(Facts(blamed=always.objects), always)


def _damage(store: Store) -> tuple[Facts, str]:
    """Fill a store, and spoil a file of an object of which the inputs have a good copy."""
    always = fill(store)
    spoiled = write_tree(store, {"f": Blob(b"b" * 5000), "g": Blob(b"g")})
    file = store.object_path(spoiled) / "f"
    file.chmod(0o644)
    file.write_bytes(b"B" + b"b" * 4999)
    file.chmod(0o444)
    return always, spoiled


def _fill_for_repair(store: Store) -> Expectation:
    always, spoiled = _damage(store)
    store.set_root("spoiled", Root(Digest(spoiled)))
    return Expectation(
        replace(always, blamed=frozenset({spoiled, "quarantine"})),
        replace(always, objects=always.objects | {spoiled}, blamed=frozenset({"quarantine"})),
    )


def _fill_for_quarantine(store: Store) -> Expectation:
    always, spoiled = _damage(store)
    return Expectation(
        replace(always, blamed=frozenset({spoiled, "quarantine"})),
        replace(always, gone=frozenset({spoiled}), blamed=frozenset({"quarantine"})),
    )


ADD = Errand(
    "store add", lambda inputs, _: ["store", "add", inputs.tree, "--name", "added"], _fill_for_add
)
REALIZE = Errand(
    "realize", lambda inputs, _: ["realize", inputs.manifest, "--name", "run", "-j1"], _fill_for_run
)
GC = Errand("gc", lambda *_: ["gc"], _fill_for_collection)
REINDEX = Errand("store reindex", lambda *_: ["store", "reindex", "-j1"], _fill_and_lose_index)
QUARANTINE = Errand(
    "store reindex after damage",
    lambda *_: ["store", "reindex", "-j1"],
    _fill_for_quarantine,
    (0, 4),
)
REPAIR = Errand(
    "store verify --repair",
    lambda inputs, _: ["store", "verify", "--all", "--repair", "--from", inputs.tree, "-j1"],
    _fill_for_repair,
)
IMPORT = Errand(
    "store import", lambda inputs, _: ["store", "import", inputs.archive], _fill_for_import
)
EXPORT = Errand(
    "store export",
    lambda _, place: ["store", "export", "kept", "--output", place / "exported.tar"],
    _fill_for_import,
)
ALL = (ADD, REALIZE, GC, REINDEX, QUARANTINE, REPAIR, IMPORT, EXPORT)
CHANGING = ALL[:-1]


def modules_in_use(inputs: Inputs, place: Path) -> list[str]:
    """Run all commands once, in a process of its own, and return the names of the modules that they import."""
    stores = [place / f"{number}" for number in range(len(ALL))]
    for errand, path in zip(ALL, stores, strict=True):
        with Store.open(path) as store:
            errand.prepare(store)
    calls = [
        [*map(str, errand.argv(inputs, place)), "--store", str(path)]
        for errand, path in zip(ALL, stores, strict=True)
    ]
    done = subprocess.run(
        [sys.executable, "-c", _REHEARSAL, json.dumps(calls)],
        # As the rigs say it: looking at a variable imports what a flag does not.
        env={
            **os.environ,
            "PYTHONPATH": ":".join(sys.path),
            "HOME": str(place),
            "DIS_PROGRESS": "json",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # What tells of an error is imported when there is one, which may be that nothing can be read any more.
    errors = ("dis_command.failures", "dis_command.error_report", "dis_store.environment")
    return [*done.stdout.split("modules:")[1].split(), *errors]


_REHEARSAL = """
import json, sys
from dis_command.main import run
for argv in json.loads(sys.argv[1]):
    assert run(argv) in (0, 4), argv
print("modules:", *(name for name in sys.modules if not name.startswith("__")))
"""


def said_by(lines: Sequence[str], before: Facts) -> Facts:
    """Return what a command has promised with what it printed: objects on stdout, builds that were done."""
    objects = [digest for line in lines for digest in _PATH.findall(line)]
    done = sum(1 for line in lines if _DONE.search(line))
    return Facts(frozenset(objects), builds=before.builds + done)


@cache
def _audit() -> Any:
    spec = importlib.util.spec_from_file_location("audit_script", _SCRIPT)
    assert spec is not None, _SCRIPT
    assert spec.loader is not None, _SCRIPT
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Audit


@dataclass
class Inspection:
    """What is found in a store without any of its code: by the audit, and in the records of its roots and builds."""

    store: Path
    rows: frozenset[str] = frozenset()
    roots: Mapping[str, str] = field(default_factory=dict)
    builds: int = 0
    problems: list[str] = field(default_factory=list)

    def look(self, *, orphans_allowed: bool) -> "Inspection":
        """Look at everything."""
        try:
            audit = _audit()(self.store)
            audit.run()
            records = {
                path.stem: json.loads(path.read_bytes())["object"]
                for path in (self.store / "roots").glob("*.json")
            }
        except Exception as error:  # noqa: BLE001 - whatever cannot be read is what is looked for
            self.problems = [f"the store cannot be read: {error!r}"]
            return self
        self.rows, self.roots = frozenset(audit.rows), records
        self.builds = sum(1 for _ in (self.store / "realisations").glob("*/*/*.json"))
        self.problems = audit.problems + ([] if orphans_allowed else audit.orphans)
        return self

    def against(self, facts: Facts) -> list[str]:
        """Return what is wrong, given what must be true."""
        found = [
            problem
            for problem in self.problems
            if not any(blamed in problem for blamed in facts.blamed)
        ]
        found += [f"lost: {digest}" for digest in facts.objects - self.rows]
        found += [f"back again: {digest}" for digest in facts.gone & self.rows]
        found += [f"the root {name} is lost" for name in facts.roots - self.roots.keys()]
        if self.builds < facts.builds:
            found.append(f"{self.builds} build records of {facts.builds}")
        return found


def both(first: Facts, second: Facts) -> Facts:
    """Return what is true when both are; blamed may be what the first blames."""
    return Facts(
        first.objects | second.objects,
        first.gone | second.gone,
        first.roots | second.roots,
        max(first.builds, second.builds),
        first.blamed,
    )


def wrong(store: Path, facts: Facts, *, orphans_allowed: bool) -> list[str]:
    """Return what is wrong with a store of which the facts must hold."""
    return Inspection(store).look(orphans_allowed=orphans_allowed).against(facts)
