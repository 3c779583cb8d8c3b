"""`dis run`: realise a run and lay it out as a directory of files."""

from pathlib import Path
from typing import TYPE_CHECKING

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
from dis_command.unverified import unverified_option, warn_after, warn_before

if TYPE_CHECKING:
    from dis_derivations.realisation.engine_environment import Place
    from dis_derivations.realisation.target import RealisedTarget
    from dis_store import Store

_FILE = click.Path(path_type=Path, dir_okay=False)


@command(
    "run",
    examples=(
        "dis run configs/quickstart.json",
        "dis run configs/quickstart.json --run-dir first --token-output tokens.json",
    ),
)
@config_arguments()
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to.  [default: outputs.directory of the manifest, or runs/RUN_ID]",
)
@click.option(
    "--token-output", type=_FILE, metavar="FILE", help="Write a copy of tokens.json here as well."
)
@click.option(
    "--run-log-output",
    type=_FILE,
    metavar="FILE",
    help="Write a copy of run_log.json here as well.",
)
@unverified_option
@force_option
@set_option
@click.option("--name", metavar="ROOT", help="Keep the run under this name.")
@jobs_option
@vllm_python_option
@transformers_python_option
@place_option
@json_option
@pass_session
def run(  # noqa: PLR0913, PLR0917 - one parameter an option, passed by name
    session: Session,
    config: str | None,
    config_option: str | None,
    run_dir: Path | None,
    token_output: Path | None,
    run_log_output: Path | None,
    unverified: bool,
    force: bool,
    overrides: tuple[str, ...],
    name: str | None,
    jobs: int | None,
    vllm_python: str | None,
    transformers_python: str | None,
    place: "Place | None",
) -> int:
    """Realise a run and lay it out as a directory of files.

    Prints the directory. It holds bundle.json, manifest.used.json,
    lock.used.json, tokens.json, run_log.json and what was captured, or what
    outputs.bundle_policy.include of the manifest has of it. The exit code is 1
    when the results differ from outputs.golden of the manifest.
    """
    from dis_derivations.lock.input_files import refuse_inputs
    from dis_derivations.realisation.manifest_target import realise_target
    from dis_derivations.realisation.target import TargetRequest
    from dis_derivations.runs.output_file import check_place
    from dis_derivations.runs.run_directory import copy_file

    path = Path(chosen_config(config, config_option))
    request = TargetRequest(
        config=path,
        overrides=overrides,
        verify_digests=not unverified,
        jobs=job_count(jobs),
        root=name,
        engine_python=engine_python(vllm_python),
        transformers_python=transformers_interpreter(transformers_python),
        place=place,
        image_check=image_check_of(session),
    )
    refuse_inputs(path, overrides, (token_output, run_log_output))
    for output in (token_output, run_log_output):
        if output is not None:
            check_place(output)  # now, and not after the work
    with session.open_store() as store:
        if name is not None:
            store.root(name)  # refuses a bad name now, and not after the build
        if unverified:
            warn_before(session)
        with session.reporting() as reporter:
            realised = realise_target(store, request, reporter)
        warn_after(session, realised)
        directory = _lay_out(store, realised, run_dir)
        if token_output is not None:
            copy_file(directory / "tokens.json", token_output, replace=force)
        if run_log_output is not None:
            copy_file(_run_log(store, realised, directory), run_log_output, replace=force)
        session.print_result(lambda: _document(store, realised, directory), lambda: str(directory))
        if realised.golden is None:
            return 0
        from dis_command.golden import compare_with_golden

        return compare_with_golden(session, store, realised)


def _lay_out(store: "Store", realised: "RealisedTarget", run_dir: Path | None) -> Path:
    from dis_derivations.runs.run_directory import directory_for, lay_out, run_id_of

    bundle = realised.outputs["bundle"]
    directory = run_dir or directory_for(
        realised.output_directory,
        run_id=run_id_of(store, bundle),
        manifest_name=realised.name,
    )
    return lay_out(store, bundle, realised.outputs.get("log"), directory, realised.include)


def _run_log(store: "Store", realised: "RealisedTarget", directory: Path) -> Path:
    """Return the run log: that of the directory, or the store's where the manifest wants none there."""
    from dis_derivations.runs.run_directory import RUN_LOG, run_log_in

    laid_out = directory / RUN_LOG
    if laid_out.exists():
        return laid_out
    return run_log_in(store, realised.outputs.get("log")) or laid_out


def _document(store: "Store", realised: "RealisedTarget", directory: Path) -> dict[str, object]:
    from dis_command.realised_documents import realised_document
    from dis_derivations.runs.run_directory import run_id_of

    return {
        **realised_document(store, realised),
        "run_id": str(run_id_of(store, realised.outputs["bundle"])),
        "directory": str(directory),
    }
