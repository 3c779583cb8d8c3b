"""The peer of the store's benchmarks: Nix in a store of its own, without a daemon and without a sandbox."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from run_shelf import make_writable


@dataclass(frozen=True)
class NixStore:
    """A Nix store below `top`."""

    top: Path

    @property
    def environment(self) -> dict[str, str]:
        """What makes Nix use it."""
        places = {"STORE": "store", "STATE": "var", "LOG": "log", "CONF": "etc"}
        return {
            **os.environ,
            **{f"NIX_{name}_DIR": str(self.top / place) for name, place in places.items()},
            "NIX_REMOTE": "",
        }

    def start(self) -> None:
        """Make it empty."""
        self.remove()
        (self.top / "etc").mkdir(parents=True)
        (self.top / "store").mkdir()
        settings = "sandbox = false\nbuild-users-group =\nexperimental-features = nix-command\n"
        (self.top / "etc" / "nix.conf").write_text(settings)

    def remove(self) -> None:
        """Remove it."""
        if self.top.exists():
            make_writable(self.top)
            subprocess.run(["rm", "-rf", str(self.top)], check=True)

    def call(self, *argv: str | Path) -> None:
        """Run one of Nix's programs; its output is dropped."""
        quiet(list(map(str, argv)), self.environment)


def quiet(argv: Sequence[str], environment: dict[str, str] | None = None) -> None:
    """Run a program; its output is shown only when it fails."""
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{argv[0]} failed: {done.stderr[-2000:]}")
