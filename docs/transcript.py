"""Replay the console transcripts of a document, and write what the commands print today into it.

Usage: python docs/transcript.py README.md

A transcript is a fenced block of the kind `console`: lines that begin with `$ ` are run by a shell in the root of the
checkout, in a home directory of their own, and everything below such a line is what it printed.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
# What is different on every machine and says nothing: how long a build took.
_SECONDS = re.compile(r"\b\d+\.\d s\b")


def replay(text: str) -> str:
    """Return a document with its transcripts made anew; all its commands share one empty store."""
    with tempfile.TemporaryDirectory(prefix="dis-transcript-") as home:
        try:
            return _BLOCK.sub(lambda block: _run_block(block[0], Path(home)), text)
        finally:
            subprocess.run(["chmod", "-R", "u+w", home], check=True)


def without_times(text: str) -> str:
    """Return a transcript with every duration replaced by the same one."""
    return _SECONDS.sub("0.0 s", text)


def _run_block(block: str, home: Path) -> str:
    commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    return "\n".join(f"$ {command}\n{_output(command, home)}" for command in commands)


def _output(command: str, home: Path) -> str:
    kept = {
        name: value for name, value in os.environ.items() if name.startswith(("COVERAGE", "HF_"))
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    finished = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env={**kept, "PATH": path, "HOME": str(home), "LANG": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # A test puts a hub of its own in the place of the real one.
    hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    return finished.stdout.replace(str(home), "~").replace(hub, "https://huggingface.co")


def main() -> None:
    """Rewrite the documents that the command line names."""
    for name in sys.argv[1:]:
        document = Path(name)
        document.write_text(replay(document.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
