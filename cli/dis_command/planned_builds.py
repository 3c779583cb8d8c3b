"""What is said of builds that would be made, for `--dry-run`."""

from typing import TYPE_CHECKING

from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.realisation.dry_run import DryRun


_LOCKS = "the manifest would be locked first; what is to be built is known after that"


def show_plan(session: Session, plan: "DryRun") -> None:
    """Print what a realisation would build."""
    from dis_command.realised_documents import dry_run_document

    session.print_result(lambda: dry_run_document(plan), lambda: _plan_text(plan))


def _plan_text(plan: "DryRun") -> str:
    from dis_command.terminal import count_text, size_text

    if plan.locks:
        return "\n".join([*_downloads(plan), _LOCKS])
    if not plan.builds:
        return "nothing would be built"
    fetched = sum(build.fetched_bytes for build in plan.builds)
    head = f"{count_text(len(plan.builds), 'build')} would be made"
    lines = [head + (f", {size_text(fetched)} fetched:" if fetched else ":")]
    for build in plan.builds:
        size = f"  {size_text(build.fetched_bytes)}" if build.fetched_bytes else ""
        origin = f"  from {build.origin}" if build.origin else ""
        lines.append(f"  {build.name}  {build.derivation[:12]}{size}{origin}")
    return "\n".join(lines)


def _downloads(plan: "DryRun") -> list[str]:
    from dis_command.table import aligned
    from dis_command.terminal import count_text, size_text

    if not plan.downloads:
        return []
    known = sum(each.size or 0 for each in plan.downloads)
    rows = [
        (
            f"  {each.artifact}",
            each.path,
            "size unknown" if each.size is None else size_text(each.size),
            f"from {each.origin}",
        )
        for each in plan.downloads
    ]
    files = count_text(len(plan.downloads), "file")
    return [f"{files} would be downloaded, {size_text(known)}:", *aligned(rows).splitlines()]
