"""A store can be audited without dis: docs/guides/audit.sh knows b3sum and jq and nothing else."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs/guides/audit.sh"


@pytest.fixture(autouse=True)
def tools() -> None:
    missing = [tool for tool in ("b3sum", "jq") if shutil.which(tool) is None]
    if missing and os.environ.get("CI"):
        pytest.fail(f"not installed: {', '.join(missing)}")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian packages of the same names)")


def audit(store: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", str(SCRIPT), str(store)], capture_output=True, text=True, check=False
    )


def test_a_realised_store_passes(shared: Any) -> None:
    finished = audit(shared.store)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


def test_each_kind_of_damage_is_named(shared: Any, tmp_path: Path) -> None:
    store = tmp_path / "copy"
    shutil.copytree(shared.store, store, symlinks=True)
    subprocess.run(["chmod", "-R", "u+w", str(store)], check=True)
    bundle = next(store.glob("objects/*/*/bundle.json"))
    bundle.write_bytes(bundle.read_bytes() + b" ")
    weights = next(
        path for path in store.glob("objects/*/*/model.safetensors") if not path.is_symlink()
    )
    shutil.rmtree(weights.parent)
    manifest = next(store.glob(f"manifests/*/{bundle.parent.name}.json"))
    manifest.write_bytes(manifest.read_bytes().replace(b'"format":1', b'"format":2'))
    finished = audit(store)
    assert finished.returncode == 1
    assert f"{bundle.relative_to(store)}: not what the manifest says" in finished.stdout
    assert f"{manifest.relative_to(store)}: its digest is not its name" in finished.stdout
    assert f"there is no {weights.parent.relative_to(store)}" in finished.stdout
    assert "leads nowhere" in finished.stdout
