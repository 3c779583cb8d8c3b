"""A user with a tiny manifest, to whom things go wrong: what dis says then, and that nothing is lost."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command_line import Outcome, call

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class User:
    """A directory with `tiny.json` and what it names, which is also the working directory, and a store.

    Attributes:
        place: The directory.
        pristine: The same, as it was before anything happened.
        store: `DIS_STORE`.
    """

    place: Path
    pristine: Path
    store: Path

    def path(self, name: str) -> Path:
        """Return a file of the user."""
        return self.place / name

    def document(self, name: str = "tiny.json") -> dict[str, Any]:
        """Return a JSON file."""
        document: dict[str, Any] = json.loads(self.path(name).read_text("utf-8"))
        return document

    def write(self, name: str, content: bytes | str | object) -> None:
        """Write a file: bytes, a text, or anything else as JSON."""
        if not isinstance(content, bytes | str):
            content = json.dumps(content)
        data = content.encode() if isinstance(content, str) else content
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_bytes(data)

    def edit(self, changes: Mapping[str, Any], name: str = "tiny.json") -> None:
        """Set fields of a JSON file, by dotted path."""
        document = self.document(name)
        for dotted, value in changes.items():
            *path, last = dotted.split(".")
            block = document
            for part in path:
                block = block.setdefault(part, {})
            block[last] = value
        self.write(name, document)

    def alter(self, name: str, change: Callable[[bytes], bytes]) -> None:
        """Change the bytes of a file."""
        self.path(name).write_bytes(change(self.path(name).read_bytes()))

    def dis(self, *argv: str | Path) -> Outcome:
        """Call the command."""
        return call([*map(str, argv)])

    def does(self, *argv: str | Path) -> Outcome:
        """Call the command; it must work."""
        outcome = self.dis(*argv)
        assert outcome.code == 0, outcome.err
        return outcome

    def refused(self, *argv: str | Path, code: int = 2, says: str | tuple[str, ...]) -> str:
        """Call the command, which must refuse in one clear block and leave everything as it was.

        Returns what it said.
        """
        before = self._files()
        outcome = self.dis(*argv)
        said = outcome.err
        assert outcome.code == code, said or outcome.out
        check_clear(said)
        for part in (says,) if isinstance(says, str) else says:
            assert part in said, said
        assert outcome.out == ""
        after = self._files()
        assert {name: after.get(name) for name in before} == before
        assert not list(self.store.glob("tmp/*"))
        return said

    def recovers(self) -> None:
        """Check that the store is whole, and that the same call works once the files are right."""
        self.does("store", "verify", "--all")
        self._start_over()
        bundle = Path(self.does("realize", "tiny.json").out.strip())
        assert json.loads((bundle / "bundle.json").read_bytes())["name"] == "tiny"

    def _start_over(self) -> None:
        for path in self.place.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        shutil.copytree(self.pristine, self.place, dirs_exist_ok=True)

    def _files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.place)): path.read_bytes()
            for path in self.place.rglob("*")
            if path.is_file()
        }


def check_clear(said: str) -> None:
    """Fail unless stderr is one error block that a terminal cannot be steered with."""
    Outcome(0, "", said).check_one_block()
    assert "dis failed unexpectedly" not in said
    assert not _STEERING.search(said)
    what = next(line for line in said.splitlines() if line.startswith("error: "))
    assert len(what) > len("error: ")
    assert not what.endswith(".")
