"""The token of a hub is in no file, no error and on no command line."""

import os
import subprocess
from pathlib import Path

import pytest

from command_line import Dis
from hub_server import Hub
from served_models import TOKEN


def holders(secret: str, *places: Path) -> list[Path]:
    """Return the files that hold a text."""
    return [
        path
        for place in places
        for path in place.rglob("*")
        if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes()
    ]


class TestCanary:
    """The token of a hub is nowhere but on the way to that hub."""

    def test_it_is_in_no_file(
        self, dis: Dis, hub: Hub, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert dis("lock", manifest).code == 0
        outcome = dis("run", manifest, "--run-dir", "laid-out", "--verbose")
        assert outcome.code == 0
        assert dis("realize", manifest, "--rebuild", "--name", "fox").code == 0
        assert dis("bundle", "fox", "--output", "fox.tar.gz").code == 0
        assert TOKEN not in outcome.out + outcome.err
        subprocess.run(["tar", "-xzf", "fox.tar.gz", "--one-top-level=unpacked"], check=True)
        assert [seen for seen in hub.requests("", "hub") if TOKEN in str(seen.headers)]
        assert [seen for seen in hub.requests("", "cdn") if TOKEN in str(seen)] == []
        assert holders(TOKEN, tmp_path) == []
        assert holders("very-secret-signature", tmp_path) == []

    @pytest.mark.parametrize(
        "part", ["/revision/", "/tree/", "/resolve/", "/signed/"], ids=lambda part: part.strip("/")
    )
    @pytest.mark.parametrize("status", [401, 403, 500])
    def test_it_is_in_no_error(
        self, dis: Dis, hub: Hub, manifest: Path, tmp_path: Path, part: str, status: int
    ) -> None:
        host = "cdn" if part == "/signed/" else "hub"
        hub.fail(part, lambda handler: handler.refuse(status, "Bad", f"sent {TOKEN}"), host=host)
        for argv in (("--debug",), ("--json", "--debug"), ("--progress", "json", "--debug")):
            outcome = dis("lock", manifest, *argv)
            assert outcome.code in {3, 5}
            assert TOKEN not in outcome.out + outcome.err
            assert "very-secret-signature" not in outcome.out + outcome.err
        assert holders(TOKEN, tmp_path) == []

    def test_it_is_on_no_command_line(
        self, hub: Hub, manifest: Path, tmp_path: Path, python: str
    ) -> None:
        """A process of the command and all its children, looked at while the hub keeps them waiting."""
        seen: list[str] = []

        def look(_handler: object) -> bool:
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    line = (process / "cmdline").read_bytes()
                except OSError:
                    continue
                if b"dis_command" in line:
                    seen.append(line.decode())
            return True

        hub.fail("/signed/", look, host="cdn")
        finished = subprocess.run(
            [python, "-m", "dis_command", "realize", str(manifest), "--quiet"],
            capture_output=True, text=True, check=False, env=os.environ,
        )  # fmt: skip
        assert finished.returncode == 0, finished.stderr
        assert seen
        assert [line for line in seen if TOKEN in line] == []
        assert TOKEN not in finished.stdout + finished.stderr
