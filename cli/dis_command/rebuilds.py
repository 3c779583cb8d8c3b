"""What came of `--rebuild`: how many builds made the same bits, and where the others part."""

from typing import TYPE_CHECKING, Any

from dis_command.realised_documents import realised_document
from dis_command.session import Session
from dis_command.terminal import count_text

if TYPE_CHECKING:
    from dis_derivations.comparison.report import DiffReport
    from dis_derivations.realisation.rebuild import Rebuild
    from dis_derivations.realisation.reproductions import Reproductions
    from dis_derivations.realisation.target import RealisedTarget
    from dis_store import Store


def show_rebuilds(session: Session, store: "Store", realised: "RealisedTarget") -> int:
    """Print the result with its rebuilds; return 0 when every one of them was identical, else 1."""
    from dis_derivations.realisation.reproductions import reproductions_of

    found = reproductions_of(store, realised)
    reports = [_compare(store, realised, rebuild) for rebuild in realised.rebuilds]
    if session.as_json:
        session.print_document(_document(store, realised, found, reports))
    else:
        session.print_line(str(store.object_path(realised.main_output)))
        for rebuild, report in zip(realised.rebuilds, reports, strict=True):
            if not rebuild.identical:
                session.say(_difference(rebuild, report))
        session.say(_verdict(realised, found))
    return 0 if realised.reproduced else 1


def _compare(store: "Store", realised: "RealisedTarget", rebuild: "Rebuild") -> "DiffReport | None":
    """Return the comparison of a run with its rebuild, where they differ and both have a bundle."""
    if rebuild.bundle is None:
        return None
    from dis_derivations.comparison.diff import diff_bundles
    from dis_derivations.runs.bundle_reader import StoredBundle

    chosen, other = StoredBundle(store, realised.main_output), StoredBundle(store, rebuild.bundle)
    return diff_bundles(chosen, other, store=store)


def _document(
    store: "Store",
    realised: "RealisedTarget",
    found: "Reproductions",
    reports: list["DiffReport | None"],
) -> dict[str, Any]:
    document = realised_document(store, realised)
    for entry, report in zip(document["rebuilds"], reports, strict=True):
        entry["diff"] = None if report is None else report.to_json()
    document["reproductions"] = {
        "key": str(found.key),
        "builds": found.builds,
        "identical": found.identical,
    }
    return document


def _difference(rebuild: "Rebuild", report: "DiffReport | None") -> str:
    if report is None:
        outputs = ", ".join(f"{name} is {rebuild.outputs[name]}" for name in rebuild.differing)
        return f"a rebuild of {rebuild.subject} made other bits: {outputs}"
    from dis_derivations.comparison.render_text import render_text

    return render_text(report)


def _verdict(realised: "RealisedTarget", found: "Reproductions") -> str:
    subject = realised.rebuilds[0].subject
    verb = "has" if found.identical == 1 else "have"
    return f"{found.identical} of {count_text(found.builds, 'build')} of {subject} {verb} the bits of the first one"
