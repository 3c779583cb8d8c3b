"""What is said of content that would come into the store, for `--dry-run`."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from dis_command.session import Session
from dis_command.terminal import count_text, size_text

if TYPE_CHECKING:
    from dis_store import PlannedAddition, PlannedImport, Store


def show_additions(session: Session, store: "Store", paths: Sequence[Path], *, adopt: bool) -> None:
    """Print what `dis store add` would do."""
    from dis_store import plan_addition

    plans = [(path, plan_addition(store, path, adopt=adopt)) for path in paths]
    session.print_result(
        lambda: [{"source": str(path), "dry_run": True, **asdict(plan)} for path, plan in plans],
        lambda: "\n".join(_addition_text(path, plan) for path, plan in plans),
    )


def _addition_text(path: Path, plan: "PlannedAddition") -> str:
    content = f"{count_text(plan.files, 'file')}, {size_text(plan.bytes)}"
    if not plan.moved:
        return f"{path} would be copied: {content}"
    if plan.moved == plan.files:
        return f"{path} would be moved: {content}"
    return (
        f"{path} would be moved: {content}, of which {plan.files - plan.moved} copied and removed"
    )


def show_import(session: Session, plan: "PlannedImport") -> None:
    """Print what `dis store import` would do."""
    new = count_text(len(plan.new), "object is new", "objects are new")
    size = size_text(plan.bytes)
    session.print_result(
        lambda: {
            "schema_version": 1,
            "dry_run": True,
            "roots": [str(digest) for digest in plan.roots],
            "objects": plan.objects,
            "new": len(plan.new),
            "new_objects": [str(digest) for digest in plan.new],
            "bytes": plan.bytes,
            "signatures": plan.signatures,
        },
        lambda: f"{count_text(plan.objects, 'object')}, {size}, would be imported; {new}",
    )
