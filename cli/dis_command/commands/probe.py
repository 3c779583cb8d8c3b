"""`dis probe`: check what a manifest's results do not depend on."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dis_command.command import (
    chosen_config,
    command,
    config_arguments,
    dry_run_option,
    engine_python,
    force_option,
    job_count,
    jobs_option,
    json_option,
    pass_session,
    place_option,
    set_option,
    transformers_interpreter,
    transformers_python_option,
    vllm_python_option,
)
from dis_command.image_trust import image_check_of
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.probing.experiment import CheckName
    from dis_derivations.probing.verdict import Verdict
    from dis_derivations.realisation.engine_environment import Place
    from dis_derivations.realisation.target import TargetRequest
    from dis_store import Store

_NOTHING_MADE = 5


@command(
    "probe",
    examples=(
        "dis probe configs/quickstart.json --dry-run",
        "dis probe configs/quickstart.json",
        "dis probe configs/quickstart.json --checks alone,order --plot probe.svg",
    ),
)
@config_arguments()
@click.option(
    "--checks",
    metavar="A,B",
    help="Make these checks only.  [default: all]",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.svg",
    help="Draw from which position on results differ.",
)
@force_option
@set_option
@dry_run_option
@jobs_option
@vllm_python_option
@transformers_python_option
@place_option
@json_option
@pass_session
def probe(  # noqa: PLR0913, PLR0917 - one parameter an option, passed by name
    session: Session,
    config: str | None,
    config_option: str | None,
    checks: str | None,
    plot: Path | None,
    force: bool,
    overrides: tuple[str, ...],
    dry_run: bool,
    jobs: int | None,
    vllm_python: str | None,
    transformers_python: str | None,
    place: "Place | None",
) -> int:
    """Check what a manifest's results do not depend on.

    Makes the run again with one thing changed at a time: in the same process, in
    a new one, one request at a time, in other batches, in another order, with
    other threads and instructions, on the reference engine. Says which claims
    hold, and where results first part for those that do not. The exit code is 0
    when all checks that were made hold, 1 when one does not, 5 when none could be
    made.
    """
    from dis_derivations.lock.input_files import refuse_inputs
    from dis_derivations.probing.checks import chosen
    from dis_derivations.realisation.target import TargetRequest
    from dis_derivations.runs.output_file import check_place

    names = chosen([name.strip() for name in checks.split(",")] if checks else ())
    request = TargetRequest(
        config=Path(chosen_config(config, config_option)),
        overrides=overrides,
        jobs=job_count(jobs),
        engine_python=engine_python(vllm_python),
        transformers_python=transformers_interpreter(transformers_python),
        place=place,
        image_check=image_check_of(session),
    )
    if plot is not None:
        refuse_inputs(request.config, overrides, (plot,))
        check_place(plot)  # now, and not after the work
    with session.open_store() as store:
        if dry_run:
            return _show_plan(session, store, request, names)
        return _probe(session, store, request, names, plot=plot, force=force)


def _show_plan(
    session: Session, store: "Store", request: "TargetRequest", names: "tuple[CheckName, ...]"
) -> int:
    from dis_derivations.probing.preparing import plan_probe
    from dis_derivations.probing.rendering import render_plan

    planned = plan_probe(store, request, names)
    session.print_result(planned.to_json, lambda: render_plan(planned))
    return 0


def _probe(
    session: Session,
    store: "Store",
    request: "TargetRequest",
    names: "tuple[CheckName, ...]",
    *,
    plot: Path | None,
    force: bool,
) -> int:
    from dis_derivations.probing.keeping import keep_verdict
    from dis_derivations.probing.preparing import laboratory_for
    from dis_derivations.probing.probe import probe as make_checks
    from dis_derivations.probing.rendering import render_verdict

    with (
        session.reporting() as reporter,
        laboratory_for(store, request, reporter) as laboratory,
    ):
        verdict = make_checks(laboratory, names)
    digest, root = keep_verdict(store, verdict)
    if plot is not None:
        _write_plot(store, verdict, plot, force=force)
        session.say(f"wrote {plot}")
    document = verdict.to_json()
    session.print_result(
        lambda: {**document, "object": str(digest), "root": root, "generated": laboratory.built},
        lambda: f"{render_verdict(document)}\nkept as {root}",
        paged=True,
    )
    if not verdict.made:
        return _NOTHING_MADE
    return 0 if verdict.holds else 1


def _write_plot(store: "Store", verdict: "Verdict", path: Path, *, force: bool) -> None:
    from dis_derivations.probing.plot import plot
    from dis_derivations.runs.bundle_documents import load_bundle
    from dis_derivations.runs.bundle_reader import StoredBundle
    from dis_derivations.runs.output_file import write_file

    sequences = load_bundle(StoredBundle(store, verdict.baseline)).sequences
    positions = max((len(each.output_token_ids) for each in sequences), default=0)
    write_file(path, plot(verdict.to_json(), positions).encode(), replace=force)
