"""What is said of builds that would be made or come from elsewhere, for `--dry-run`."""

from typing import TYPE_CHECKING

from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.realisation.dry_run import DryRun


_LOCKS = "the manifest would be locked first; what is to be built is known after that"


def show_plan(session: Session, plan: "DryRun") -> None:
    """Print what a realisation would fetch from registries, and what it would build."""
    from dis_command.realised_documents import dry_run_document

    for note in plan.substitutions.notes:
        session.say(f"note: {note}")
    session.print_result(lambda: dry_run_document(plan), lambda: _plan_text(plan))


def _plan_text(plan: "DryRun") -> str:
    if plan.locks:
        return "\n".join([*_downloads(plan), _LOCKS])
    builds = _builds(plan) or ["nothing would be built"]
    return "\n".join([*_substitutions(plan), *builds, *_refused(plan)])


def _builds(plan: "DryRun") -> list[str]:
    from dis_command.terminal import count_text, size_text

    if not plan.builds:
        return []
    fetched = sum(build.fetched_bytes for build in plan.builds)
    head = f"{count_text(len(plan.builds), 'build')} would be made"
    lines = [head + (f", {size_text(fetched)} fetched:" if fetched else ":")]
    for build in plan.builds:
        size = f"  {size_text(build.fetched_bytes)}" if build.fetched_bytes else ""
        origin = f"  from {build.origin}" if build.origin else ""
        lines.append(f"  {build.name}  {build.derivation[:12]}{size}{origin}")
    return lines


def _substitutions(plan: "DryRun") -> list[str]:
    from dis_command.terminal import count_text, size_text

    coming = plan.substitutions.taken
    if not coming:
        return []
    fetched = sum(each.fetched_bytes for each in coming)
    count = count_text(len(coming), "build")
    lines = [f"{count} would come from registries, {size_text(fetched)} fetched:"]
    for each in coming:
        trust = ", not signed by a trusted key" if each.proof == "none" else ""
        size = size_text(each.fetched_bytes)
        lines.append(f"  {each.name}  {each.derivation[:12]}  {size}  from {each.origin}{trust}")
    return lines


def _refused(plan: "DryRun") -> list[str]:
    return [
        f"{each.origin} has a build of {each.name} that would not be taken: {each.reason}"
        for each in plan.substitutions.refused
    ]


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
