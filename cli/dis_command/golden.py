"""Comparing a run with the golden one that its manifest names."""

from typing import TYPE_CHECKING

from dis_command.session import Session
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.realisation.target import RealisedTarget
    from dis_store import Store


def compare_with_golden(session: Session, store: "Store", realised: "RealisedTarget") -> int:
    """Say whether a run has the results of `outputs.golden`; return 0 when it has, else 1.

    Raises:
        InvalidInputError: The manifest names nothing that is a run. The run itself was made, and is kept.
    """
    from dis_derivations.comparison.diff import diff_bundles
    from dis_derivations.comparison.render_text import render_text
    from dis_derivations.runs.bundle_reader import StoredBundle
    from dis_derivations.runs.reference import resolve

    ref = realised.golden or ""
    try:
        golden = resolve(store, ref).bundle(store)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"the run was made, and outputs.golden cannot be compared with: {error.what}",
            cause=error.cause,
            hint="correct it, or go on without it: --set outputs.golden.enabled=false",
        ) from error
    # Every run is compared: packages of images, for which layers are read, are left to `dis diff`.
    run = StoredBundle(store, realised.main_output)
    report = diff_bundles(golden, run, store=store, packages=False)
    if report.same:
        session.say(f"the same results as the golden run {ref}")
        return 0
    session.say(render_text(report).rstrip("\n"))
    session.warn(f"the results are NOT those of the golden run {ref} (A; this run is B)")
    return 1
