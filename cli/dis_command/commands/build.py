"""`dis build`: what an engine loads, built and described."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dis_command.command import (
    chosen_config,
    command,
    config_arguments,
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
    from dis_derivations.realisation.engine_environment import Place
    from dis_derivations.realisation.target import TargetRequest


@command(
    "build",
    examples=(
        "dis build configs/quickstart.json",
        "dis build --config configs/quickstart.json --update-lock --output closure.json",
    ),
)
@config_arguments()
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the description here, and print FILE.",
)
@click.option("--update-lock", is_flag=True, help="Pin every file of the manifest again first.")
@click.option("--name", metavar="ROOT", help="Keep the result under this name.")
@click.option("--dry-run", is_flag=True, help="Print what would be built, and change nothing.")
@force_option
@set_option
@jobs_option
@vllm_python_option
@transformers_python_option
@place_option
@json_option
@pass_session
def build(  # noqa: PLR0913, PLR0917 - one parameter an option, passed by name
    session: Session,
    config: str | None,
    config_option: str | None,
    output: Path | None,
    update_lock: bool,
    name: str | None,
    dry_run: bool,
    force: bool,
    overrides: tuple[str, ...],
    jobs: int | None,
    vllm_python: str | None,
    transformers_python: str | None,
    place: "Place | None",
) -> None:
    """Build what an engine loads, and describe it.

    Realises the target closure and prints its metadata as JSON: digest,
    engine, objects with their sizes, files, and the lock's id.
    """
    from dis_derivations.lock.input_files import refuse_inputs
    from dis_derivations.provenance.closure_metadata import build_closure
    from dis_derivations.realisation.target import TargetRequest
    from dis_derivations.runs.output_file import check_place

    request = TargetRequest(
        config=Path(chosen_config(config, config_option)),
        overrides=overrides,
        jobs=job_count(jobs),
        root=name,
        engine_python=engine_python(vllm_python),
        transformers_python=transformers_interpreter(transformers_python),
        place=place,
        image_check=image_check_of(session),
    )
    refuse_inputs(request.config, overrides, [output])
    if output is not None:
        check_place(output)
    if dry_run:
        _show_plan(session, request, update_lock=update_lock)
        return
    with session.open_store() as store, session.reporting() as reporter:
        metadata = build_closure(store, request, reporter, update_lock=update_lock)
    if output is None:
        session.print_document(metadata)
        return
    _write(output, metadata, replace=force)
    session.print_result(lambda: metadata, lambda: str(output))


def _show_plan(session: Session, request: "TargetRequest", *, update_lock: bool) -> None:
    from dis_command.planned_builds import show_plan
    from dis_derivations.provenance.closure_metadata import plan_closure

    with session.open_store() as store:
        show_plan(session, plan_closure(store, request, update_lock=update_lock))


def _write(output: Path, metadata: dict[str, Any], *, replace: bool) -> None:
    import json

    from dis_derivations.runs.output_file import write_file

    write_file(output, (json.dumps(metadata, indent=2) + "\n").encode(), replace=replace)
