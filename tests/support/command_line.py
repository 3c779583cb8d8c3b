"""The command line of dis, called in this process, and what a call leaves."""

import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

from dis_command.main import run

ROOT = Path(__file__).parents[2]
SHORTER = "inference.request_template.sampling.max_tokens=4"


@dataclass(frozen=True)
class Outcome:
    """What a call of the command left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The one JSON document of an error, the last line of stderr."""
        fields: dict[str, Any] = json.loads(self.err.splitlines()[-1])["error"]
        return fields

    def check_one_block(self) -> None:
        """Fail unless stderr ends with one error block, and no traceback was shown."""
        assert "Traceback" not in self.err
        lines = self.err.splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("error: ")]
        assert len(starts) == 1, self.err
        for line in lines[starts[0] + 1 :]:
            assert line.startswith(
                ("  cause: ", "  log: ", "hint: ", "more: dis help E", "      ")
            ), self.err


Dis = Callable[..., Outcome]


def call(argv: Sequence[str]) -> Outcome:
    """Call the command as a process would, with its own stdout and stderr."""
    out, err = (TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = run(argv)
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return Outcome(code, *texts)


@dataclass(frozen=True)
class Realised:
    """A store with two runs of the quickstart manifest, `first` and a shorter one `second`."""

    store: Path
    config: Path
    first: str
    second: str

    def path_of(self, name: str) -> Path:
        """Return the store path of `first` or `second` in this store."""
        digest = Path(self.first if name == "first" else self.second).name
        return self.store / "objects" / digest[:2] / digest
