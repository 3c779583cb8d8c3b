"""`dis realize`: build a target of a manifest, or find it built."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dis_command.command import (
    DisCommand,
    chosen_config,
    command,
    config_arguments,
    engine_python,
    job_count,
    jobs_option,
    json_option,
    pass_session,
    place_option,
    set_option,
    split_target,
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


class RealizeCommand(DisCommand):
    """`--rebuild` takes its number after `=` only, so that `--rebuild CONFIG` means what it says."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Write out the number that `--rebuild` alone stands for."""
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(
            ctx, ["--rebuild=1" if arg == "--rebuild" else arg for arg in args[:end]] + args[end:]
        )


@command(
    "realize",
    kind=RealizeCommand,
    examples=(
        "dis realize configs/quickstart.json",
        "dis realize configs/quickstart.json#closure --out-link result",
        "dis realize configs/quickstart.json --rebuild",
        "dis realize configs/quickstart.json --set inference.n_prompts=2 --name short",
    ),
)
@config_arguments("CONFIG[#TARGET]")
@click.option("--name", metavar="ROOT", help="Keep the result under this name.")
@click.option(
    "--out-link",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Make a link to the result; it keeps it.",
)
@jobs_option
@click.option(
    "--rebuild",
    type=click.IntRange(min=0),
    default=0,
    metavar="[=N]",
    help="Build it again, N times, and compare.",
)
@set_option
@click.option("--locked", is_flag=True, help="Fail when the lock is missing or stale.")
@unverified_option
@click.option(
    "--keep-going", is_flag=True, help="After a failure, build what does not depend on it."
)
@click.option("--dry-run", is_flag=True, help="Print what would be built, and stop.")
@click.option("--no-substitute", is_flag=True, help="Ask no registry; build everything here.")
@vllm_python_option
@transformers_python_option
@place_option
@json_option
@pass_session
def realize(  # noqa: PLR0913, PLR0917 - one parameter an option, passed by name
    session: Session,
    config: str | None,
    config_option: str | None,
    name: str | None,
    out_link: Path | None,
    jobs: int | None,
    rebuild: int,
    overrides: tuple[str, ...],
    locked: bool,
    unverified: bool,
    keep_going: bool,
    dry_run: bool,
    no_substitute: bool,
    vllm_python: str | None,
    transformers_python: str | None,
    place: "Place | None",
) -> int:
    """Build a target of a manifest, or find it built.

    Prints the store path of the target's main output; without #TARGET that is
    the bundle of the run. With --rebuild the exit code is 1 when the results
    differ; so it is when they differ from outputs.golden of the manifest.
    """
    from dis_command.planned_builds import show_plan
    from dis_command.substituters import substituter_of
    from dis_derivations.realisation.manifest_target import plan_target, realise_target
    from dis_derivations.realisation.target import DEFAULT_TARGET, TargetRequest

    path, target = split_target(chosen_config(config, config_option), DEFAULT_TARGET)
    request = TargetRequest(
        config=path,
        target=target,
        overrides=overrides,
        locked=locked,
        verify_digests=not unverified,
        jobs=job_count(jobs),
        keep_going=keep_going,
        rebuilds=rebuild,
        root=name,
        out_link=out_link,
        substituter=None if no_substitute else substituter_of(session),
        engine_python=engine_python(vllm_python),
        transformers_python=transformers_interpreter(transformers_python),
        place=place,
        image_check=image_check_of(session),
    )
    with session.open_store() as store:
        if name is not None:
            store.root(name)  # refuses a bad name now, and not after the build
        if dry_run:
            show_plan(session, plan_target(store, request))
            return 0
        if unverified:
            warn_before(session)
        with session.reporting() as reporter:
            realised = realise_target(store, request, reporter)
        warn_after(session, realised)
        return _show_result(session, store, realised)


def _show_result(session: Session, store: "Store", realised: "RealisedTarget") -> int:
    if realised.rebuilds:
        from dis_command.rebuilds import show_rebuilds

        code = show_rebuilds(session, store, realised)
    else:
        from dis_command.realised_documents import realised_document

        code = 0
        session.print_result(
            lambda: realised_document(store, realised),
            lambda: str(store.object_path(realised.main_output)),
        )
    if realised.golden is None:
        return code
    from dis_command.golden import compare_with_golden

    return max(code, compare_with_golden(session, store, realised))
