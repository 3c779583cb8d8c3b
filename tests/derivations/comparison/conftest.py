from itertools import count
from pathlib import Path

import pytest

from bundles import Diff, FolderStore, Run, Verify
from dis_derivations.comparison.diff import diff_bundles
from dis_derivations.comparison.report import DiffReport
from dis_derivations.comparison.verification import verify_bundles
from dis_derivations.comparison.verify_report import VerifyReport


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


@pytest.fixture
def diff(tmp_path: Path, store: FolderStore) -> Diff:
    number = count()

    def compare(a: Run, b: Run) -> DiffReport:
        folder = tmp_path / f"diff-{next(number)}"
        return diff_bundles(a.write(folder / "a"), b.write(folder / "b"), store=store)

    return compare


@pytest.fixture
def verify(tmp_path: Path, store: FolderStore) -> Verify:
    number = count()

    def compare(a: Run, b: Run) -> VerifyReport:
        folder = tmp_path / f"verify-{next(number)}"
        return verify_bundles(a.write(folder / "a"), b.write(folder / "b"), store=store)

    return compare
