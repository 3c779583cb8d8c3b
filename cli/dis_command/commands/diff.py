"""`dis diff`: compare two things bit for bit, or many runs with each other."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dis_command.command import command, force_option, json_option, pass_session, ref_argument
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.comparison.anything import Comparison


@command(
    "diff",
    examples=(
        "dis diff first second",
        "dis diff runs/a runs/b --json",
        "dis diff first second --html diff.html",
        "dis diff --matrix first second third",
        "dis diff base-model tuned-model",
        "dis diff one.json other.json",
        "dis diff oci://registry.example.com/runs:first runs/mine",
    ),
)
@ref_argument("refs", "A B", nargs=-1, required=True)
@click.option(
    "--strict",
    is_flag=True,
    help="Ask for the same bundles, provenance included; of other things, for the same files.",
)
@click.option("--matrix", is_flag=True, help="Compare any number of runs: which agree?")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a page about two runs that needs no network.",
)
@force_option
@json_option
@pass_session
def diff(
    session: Session,
    refs: tuple[str, ...],
    strict: bool,
    matrix: bool,
    html: Path | None,
    force: bool,
) -> int:
    """Compare two things bit for bit, or many runs with each other.

    Prints whether they are the same, where they part, and why. Compares runs, in
    the store or not, and of one kind each: manifests, locks, closures, weights,
    tokenizers, datasets and other objects. The exit code is 0 when they are the
    same, 1 when they differ. Weights are the same when they have the same
    tensors, whatever files these lie in. Of what is in a registry (oci://), only
    that is fetched which has to be compared.
    """
    _check(refs, matrix=matrix, strict=strict, html=html)
    if matrix:
        return _matrix(session, refs)
    return _two(session, refs, strict=strict, html=html, force=force)


def _check(refs: tuple[str, ...], *, matrix: bool, strict: bool, html: Path | None) -> None:
    if matrix and (strict or html is not None):
        raise click.UsageError("--matrix goes with neither --strict nor --html")
    if len(refs) == 1:
        raise click.UsageError(f"two things are compared, and only {refs[0]} is named")
    if not matrix and len(refs) > 2:  # noqa: PLR2004 - A and B
        raise click.UsageError("more than two things are named: add --matrix to compare runs")


def _two(
    session: Session,
    refs: tuple[str, ...],
    *,
    strict: bool,
    html: Path | None,
    force: bool,
) -> int:
    from dis_command.references import looking_up
    from dis_derivations.comparison.anything import compare

    if html is not None:
        from dis_derivations.runs.output_file import check_place

        check_place(html)  # now, and not after the work
    with looking_up(session, refs) as (store, resolve):
        a, b = map(resolve, refs)
        found = compare(store, a, b, for_page=html is not None)
    for hint in found.hints:
        session.say(hint)
    if html is not None:
        _write_page(found, html, force=force)
        session.say(f"wrote {html}")
    session.print_result(found.report.to_json, found.text, paged=True)
    answer = found.report.answer(strict=strict)
    if found.report.same and not answer:
        session.say(found.remark)
    return 0 if answer else 1


def _write_page(found: "Comparison", path: Path, *, force: bool) -> None:
    from dis_derivations.runs.output_file import write_file

    if found.page is None:
        raise click.UsageError("--html is for two runs of dis")
    write_file(path, found.page().encode(), replace=force)


def _matrix(session: Session, refs: tuple[str, ...]) -> int:
    from dis_command.references import looking_up
    from dis_derivations.comparison.matrix import matrix
    from dis_derivations.comparison.render_matrix import render_matrix
    from dis_derivations.runs.bundle_documents import load_bundle

    with looking_up(session, refs) as (store, resolve):
        runs = [load_bundle(resolve(ref).bundle(store)) for ref in refs]
        found = matrix(refs, runs)
    session.print_result(found.to_json, lambda: render_matrix(found), paged=True)
    return 0 if found.same else 1
