"""`dis init`: a manifest to begin with."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dis_command import completion
from dis_command.command import command, json_option, pass_session
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_store.errors import DisError


@command(
    "init",
    examples=(
        "dis init",
        "dis init --model-dir ~/models/my-llama --output my-llama.json",
        "dis init --model-id org/name --model-revision main",
    ),
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where the manifest goes.  [default: NAME.json, for the model's name]",
)
@click.option(
    "--model-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    shell_complete=completion.directories,
    help="Where the model's files are.  [default in a checkout: the quickstart model]",
)
@click.option("--model-id", metavar="ORG/NAME", help="The model's name on the Hugging Face Hub.")
@click.option(
    "--model-revision",
    metavar="REVISION",
    help="Its branch, tag or commit there.  [default: main]",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@json_option
@pass_session
def init(
    session: Session,
    output: Path | None,
    model_dir: Path | None,
    model_id: str | None,
    model_revision: str | None,
    force: bool,
) -> None:
    """Write a manifest to begin with.

    It asks the model two questions on the reference engine. What still stands
    in the way of realising it here is said on stderr.
    """
    from dis_derivations.lock.readiness import remaining_work
    from dis_derivations.manifest.initial import choose_model, encode, initial_manifest
    from dis_derivations.runs.output_file import write_file
    from dis_derivations.sources.hub_repository import check_repository_name
    from dis_derivations.sources.published_model import published_model

    if model_revision is not None and model_id is None:
        raise click.UsageError("--model-revision is of a model on a hub: give --model-id as well")
    if model_id is not None:
        check_repository_name(model_id)
    model = choose_model(model_dir, model_id, model_revision, working_directory=Path.cwd())
    if model.directory is None and model.repository is not None and model.revision is not None:
        published = published_model(model.repository, model.revision)
        if published is not None:
            model = replace(
                model,
                config=published.config,
                has_chat_template=published.has_chat_template,
            )
    target = output if output is not None else Path(f"{model.manifest_name}.json")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    write_file(target, encode(initial_manifest(model, target, created_at=now)), replace=force)
    remaining = remaining_work(target)
    session.print_result(
        lambda: _document(target, model.manifest_name, remaining), lambda: str(target)
    )
    if not session.as_json:
        session.say(_advice(target, remaining))


def _document(path: Path, name: str, remaining: "tuple[DisError, ...]") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "path": str(path),
        "name": name,
        "ready": not remaining,
        "remaining": [
            {"what": error.what, "cause": error.cause, "hint": error.hint} for error in remaining
        ],
    }


def _advice(path: Path, remaining: "tuple[DisError, ...]") -> str:
    if not remaining:
        return f"it can be realised as it is: dis realize {path}"
    lines = ["it cannot be realised yet:"]
    for error in remaining:
        text = "\n".join(
            filter(None, (error.what, error.cause, error.hint and f"hint: {error.hint}"))
        )
        lines.append("  " + text.replace("\n", "\n    "))
    return "\n".join(lines)
