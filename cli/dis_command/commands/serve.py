"""`dis serve`: vLLM's OpenAI-compatible server on what a manifest pins, started, listed and stopped."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dis_command import completion
from dis_command.command import (
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
    vllm_python_option,
)
from dis_command.image_trust import image_check_of
from dis_command.lazy_group import LazyCommand, LazyGroup
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.realisation.engine_environment import Place
    from dis_derivations.serving.records import ServerRecord, ServerRecords
    from dis_derivations.serving.states import State

_MODULE = "dis_command.commands.serve"
_IMAGE_VARIABLE = "VLLM_IMAGE"
_PORTS = click.IntRange(1, 65535)


class ServeGroup(LazyGroup):
    """`stop` is `kill`, and a manifest without a command is one to start, as in the older tool."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Write out the `start` that `dis serve --config CONFIG` means."""
        named = any(arg == "--config" or arg.startswith("--config=") for arg in args)
        if named and not {*self.lazy, "stop", "-h", "--help"} & set(args):
            args = ["start", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a command line."""
        if args[0] == "stop":
            args = ["kill", *args[1:]]
        elif args[0].endswith(".json") and args[0] not in self.lazy:
            raise click.UsageError(
                f"{args[0]!r} is no command; to serve it: dis serve start {args[0]}", ctx
            )
        return super().resolve_command(ctx, args)


@click.group(
    "serve",
    cls=ServeGroup,
    examples=("dis serve start CONFIG", "dis serve list", "dis serve kill NAME"),
    lazy={
        "start": LazyCommand(_MODULE, "start", "Start a server of a manifest's model."),
        "list": LazyCommand(_MODULE, "list_", "List the servers that were started."),
        "kill": LazyCommand(_MODULE, "kill", "Stop servers."),
    },
)
def serve() -> None:
    """Start, list and stop vLLM servers of pinned models."""


@command(
    "start",
    examples=(
        "dis serve start configs/smollm2-135m-vllm.json",
        "dis serve start --config CONFIG --name mine --port 8000",
        "dis serve start CONFIG --dry-run",
    ),
)
@config_arguments()
@click.option("--name", metavar="NAME", help="What to call it.  [default: the manifest's name]")
@click.option(
    "--port",
    type=_PORTS,
    metavar="PORT",
    help="Of this machine's loopback.  [default: that of runtime.execution.base_url, else a free one]",
)
@click.option(
    "--container-port",
    type=_PORTS,
    metavar="PORT",
    help="Where it listens in its container.  [default: 8000]",
)
@click.option(
    "--image",
    metavar="NAME@sha256:HEX",
    help="The image, which the lock must pin.  [env: VLLM_IMAGE, where the manifest names none]",
)
@click.option(
    "--pull",
    is_flag=True,
    help="Fetch an image that the store lacks; that is done in any case.",
)
@click.option(
    "--tell-settings",
    is_flag=True,
    help="Let a run on it know its settings; turns on vLLM's endpoints for developers.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait until it answers.")
@click.option(
    "--wait-timeout-seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="How long it may take until it answers.  [default: 900]",
)
@click.option(
    "--dry-run", is_flag=True, help="Print what would be built and started, and change nothing."
)
@set_option
@jobs_option
@vllm_python_option
@place_option
@json_option
@pass_session
def start(  # noqa: PLR0913, PLR0917 - one parameter an option, passed by name
    session: Session,
    config: str | None,
    config_option: str | None,
    name: str | None,
    port: int | None,
    container_port: int | None,
    image: str | None,
    pull: bool,
    tell_settings: bool,
    no_wait: bool,
    wait_timeout_seconds: float | None,
    dry_run: bool,
    overrides: tuple[str, ...],
    jobs: int | None,
    vllm_python: str | None,
    place: "Place | None",
) -> None:
    """Start a server of a manifest's model.

    Builds what the server loads, starts vLLM's OpenAI-compatible server on it
    and prints its URL once it answers. It listens on this machine alone, and
    runs until dis serve kill.
    """
    from dis_command.shown_servers import (
        WITH_NETWORK,
        directions,
        log_of,
        server_document,
        show_server_plan,
    )
    from dis_derivations.realisation.manifest_target import plan_target
    from dis_derivations.realisation.target import TargetRequest
    from dis_derivations.serving.preparing import look_at, prepare
    from dis_derivations.serving.starting import (
        CONTAINER_PORT,
        Placement,
        chosen_port,
        refuse_second,
    )
    from dis_derivations.serving.starting import start as start_server
    from dis_derivations.serving.waiting import WAIT_SECONDS, wait

    del pull  # what is missing is fetched
    path = Path(chosen_config(config, config_option))
    request = TargetRequest(
        config=path,
        overrides=(*overrides, *_image_override(session, path, overrides, image)),
        jobs=job_count(jobs),
        engine_python=engine_python(vllm_python),
        place="image" if image is not None and place is None else place,
        image_check=image_check_of(session),
    )
    served, closure = look_at(request)
    records = _records_of(session)
    chosen = served.name if name is None else name
    refuse_second(records, chosen)
    placement = Placement(
        chosen,
        chosen_port(port, served.port),
        container_port or CONTAINER_PORT,
        tells_settings=tell_settings,
    )
    with session.open_store() as store:
        if dry_run:
            show_server_plan(session, plan_target(store, closure), served, placement)
            return
        if served.forbids_network:
            session.say(WITH_NETWORK)
        with session.reporting() as reporter:
            prepared = prepare(store, served, closure, reporter)
        record = start_server(store, records, prepared, placement, session.say)
        if not no_wait:
            log = log_of(records, record)
            begun = partial(session.say, f"waiting for {record.name}; its log: {log}")
            wait(store, records, record, wait_timeout_seconds or WAIT_SECONDS, begun)
    session.print_result(
        lambda: server_document(records, record, "starting" if no_wait else "ready"),
        lambda: record.url,
    )
    session.say(directions(record, str(path), forbids_network=served.forbids_network))


@command("list", examples=("dis serve list", "dis serve list --json"))
@json_option
@pass_session
def list_(session: Session) -> None:
    """List the servers that were started.

    A server that is gone stays in the list until dis serve kill.
    """
    from dis_command.shown_servers import server_document, servers_text
    from dis_derivations.serving.states import state_of
    from dis_store.errors import IntegrityError

    records = _records_of(session)
    found: list[tuple[ServerRecord, State]] = []
    damaged: IntegrityError | None = None
    for name in records.names():
        try:
            record = records.read(name)
        except IntegrityError as error:
            damaged = error
            continue
        if record is not None:
            found.append((record, state_of(records, record)))
    session.print_result(
        lambda: [server_document(records, *each) for each in found], lambda: servers_text(found)
    )
    if damaged is not None:  # after the good ones were shown
        raise damaged


@command("kill", examples=("dis serve kill NAME", "dis serve kill --all"))
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completion.servers)
@click.option("--all", "every", is_flag=True, help="Stop all of them.")
@json_option
@pass_session
def kill(session: Session, names: tuple[str, ...], every: bool) -> None:
    """Stop servers.

    Without a name it stops the one that there is. A server is asked to end,
    and ended after half a minute; its root goes with it, its log stays.
    """
    from dis_derivations.serving.stopping import stop
    from dis_store import Store
    from dis_store.errors import DisError
    from dis_store.patience import Patience

    records = _records_of(session)
    stopped: list[str] = []
    failed: DisError | None = None
    for name in _chosen(records, names, every=every):
        try:
            with records.held(name):
                record = records.read(name)
                if record is None:  # somebody else stopped it just now
                    continue
                patience = Patience(session.patience)
                stop(records, record, partial(Store.open, patience=patience))
        except DisError as error:  # told after the others were stopped
            failed = error
            continue
        stopped.append(name)
        session.say(f"stopped {name}; its log: {records.log(name)}")
    session.print_result(lambda: {"schema_version": 1, "stopped": stopped}, lambda: "")
    if failed is not None:  # after the good ones were stopped
        raise failed
    if not stopped:
        session.say("there is no server to stop")


def _records_of(session: Session) -> "ServerRecords":
    from dis_command.config_places import user_directory
    from dis_command.settings import STATE_DIRECTORY
    from dis_derivations.serving.records import ServerRecords

    return ServerRecords(user_directory(session.environment, *STATE_DIRECTORY) / "servers")


def _chosen(records: "ServerRecords", names: tuple[str, ...], *, every: bool) -> list[str]:
    """Return the servers to stop.

    Raises:
        click.UsageError: Names and `--all` are given, or neither where there are several.
        UnknownReferenceError: There is no server of a name.
    """
    from dis_store.errors import UnknownReferenceError

    known = records.names()
    if names and every:
        raise click.UsageError("name servers, or give --all")
    for name in names:
        if name not in known:
            there = f"there are: {', '.join(known)}" if known else "there is none to stop"
            raise UnknownReferenceError(
                f"there is no server {name!r}", cause=there, hint="see them: dis serve list"
            )
    if not names and not every and len(known) > 1:
        raise click.UsageError(f"which one: {', '.join(known)}? Name it, or give --all")
    return list(dict.fromkeys(names)) or known


def _image_override(
    session: Session, config: Path, overrides: tuple[str, ...], image: str | None
) -> tuple[str, ...]:
    """Return what makes a manifest name another image: the option, else the variable where it names none."""
    if image is None and (named := session.environment.get(_IMAGE_VARIABLE)):
        from dis_derivations.manifest.json_pointer import get
        from dis_derivations.manifest.reading import read_manifest_files

        document = read_manifest_files(config, overrides).document
        if get(document, "/runtime/execution/vllm_image") is None:
            image = named
    return () if image is None else (f"runtime.execution.vllm_image={image}",)
