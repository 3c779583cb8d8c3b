"""`dis bisect`: find by experiment which difference makes two runs part."""

from typing import TYPE_CHECKING

import click

from dis_command.command import (
    command,
    dry_run_option,
    engine_python,
    job_count,
    jobs_option,
    json_option,
    pass_session,
    ref_argument,
    transformers_interpreter,
    vllm_python_option,
)
from dis_command.image_trust import image_check_of
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.bisection.laboratory import Laboratory
    from dis_derivations.realisation.events import Reporter
    from dis_store import Store

_OBSERVABLES = ("tokens", "logits", "activations", "engine_trace")


@command(
    "bisect",
    examples=(
        "dis bisect first second --dry-run",
        "dis bisect first second",
        "dis bisect first second --budget 10 --observable logits",
    ),
)
@ref_argument("ref_a", "A")
@ref_argument("ref_b", "B")
@click.option(
    "--observable",
    type=click.Choice(_OBSERVABLES),
    help="What must part.  [default: the first that differs]",
)
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    metavar="N",
    help="Generate at most N times; what is known already costs nothing.",
)
@dry_run_option
@jobs_option
@vllm_python_option
@json_option
@pass_session
def bisect(
    session: Session,
    ref_a: str,
    ref_b: str,
    observable: str | None,
    budget: int | None,
    dry_run: bool,
    jobs: int | None,
    vllm_python: str | None,
) -> int:
    """Find by experiment which difference makes two runs part.

    Builds runs that have some of the differences of B and are A otherwise, until
    a smallest set is found that makes the outputs part. Each is kept like any
    build, so a bisection that was stopped goes on where it was. The exit code is
    0 when a cause was found, else 1.
    """
    from dis_derivations.bisection.bisecting import bisect as search
    from dis_derivations.bisection.bisecting import plan
    from dis_derivations.bisection.rendering import render_bisection, render_plan
    from dis_derivations.realisation.silence import silent

    with session.open_store() as store:
        if dry_run:
            laboratory = _laboratory(store, (ref_a, ref_b), observable, silent)
            laboratory.engine_python = engine_python(vllm_python)
            laboratory.transformers_python = transformers_interpreter()
            planned = plan(laboratory)
            session.print_result(planned.to_json, lambda: render_plan(planned), paged=True)
            return 0
        with session.reporting() as reporter:
            laboratory = _laboratory(store, (ref_a, ref_b), observable, reporter)
            laboratory.budget, laboratory.jobs = budget, job_count(jobs)
            laboratory.engine_python = engine_python(vllm_python)
            laboratory.transformers_python = transformers_interpreter()
            laboratory.image_check = image_check_of(session)
            found = search(laboratory)
        session.print_result(found.to_json, lambda: render_bisection(found), paged=True)
        return 0 if found.found else 1


def _laboratory(
    store: "Store", refs: tuple[str, str], observable: str | None, reporter: "Reporter"
) -> "Laboratory":
    from dis_derivations.bisection.bisecting import question
    from dis_derivations.bisection.laboratory import Laboratory
    from dis_derivations.comparison.examination import examine
    from dis_derivations.runs.bundle_documents import load_bundle
    from dis_derivations.runs.reference import resolve

    a, b = (load_bundle(resolve(store, ref).bundle(store)) for ref in refs)
    asked = question(examine(a, b), observable)
    return Laboratory(store, a, b, asked, reporter=reporter)
