"""How a command of dis is declared: its options, the global ones, and help that begins with examples."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dis_command import completion
from dis_command.session import Session
from dis_command.setting_values import PROGRESS_MODES
from dis_command.terminal import COLOR_MODES

if TYPE_CHECKING:
    from dis_command.settings import Found, Settings

_Function = TypeVar("_Function", bound=Callable[..., Any])

GLOBAL_OPTIONS = ("store", "color", "progress", "no_pager", "wait", "quiet", "verbose", "debug")
DOCUMENTATION = "docs/reference/commands.md"
CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 80}

pass_session = click.make_pass_decorator(Session)


class DisCommand(click.Command):
    """A command with examples, which takes the global options as well.

    Args:
        examples: Command lines with which people begin.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", CONTEXT)
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.params += global_options()

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, purpose, examples, options, global options."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        write_examples(self.examples, formatter)
        write_options(self, ctx, formatter)
        formatter.write(f"\nMore: {DOCUMENTATION}\n")


def command(
    name: str, *, examples: Sequence[str], kind: type[DisCommand] = DisCommand
) -> Callable[[Callable[..., Any]], DisCommand]:
    """Return a decorator that makes a command of a function whose docstring is the help."""
    return click.command(name, cls=kind, examples=examples)


def global_options() -> list[click.Option]:
    """Return new instances of the options that every command takes, before and after its name."""
    return [
        _global(
            "store",
            metavar="DIR",
            shell_complete=completion.directories,
            help="The store.  [env: DIS_STORE] [default: ~/.local/share/dis/store]",
        ),
        _global(
            "color",
            type=click.Choice(COLOR_MODES),
            help="When to colour.  [env: NO_COLOR, DIS_COLOR, FORCE_COLOR] [default: auto]",
        ),
        _global(
            "progress",
            type=click.Choice(PROGRESS_MODES),
            help="How to show progress.  [env: DIS_PROGRESS] [default: auto]",
        ),
        _global(
            "no_pager",
            is_flag=True,
            default=None,
            help="Print long output at once.  [env: DIS_PAGER, PAGER]",
        ),
        _global(
            "wait",
            metavar="SECONDS",
            callback=_remember_wait,
            help="How long to wait for who holds a lock.  [env: DIS_WAIT] [default: forever]",
        ),
        _global("quiet", "-q", is_flag=True, default=None, help="Print results and errors only."),
        _global(
            "verbose", "-v", is_flag=True, default=None, help="Print every line of every build."
        ),
        _global("debug", is_flag=True, default=None, help="Show tracebacks.  [env: DIS_DEBUG]"),
    ]


def _global(name: str, *short: str, **attributes: Any) -> click.Option:
    flag = f"--{name.replace('_', '-')}"
    attributes.setdefault("callback", _remember)
    return click.Option([flag, *short], expose_value=False, **attributes)


def _remember(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Note a global option in the session; the one nearest to the end of the command line wins."""
    session = ctx.find_object(Session)
    if value is not None and session is not None and param.name is not None:
        setattr(session, param.name, value)


def _remember_wait(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Note for how long to wait."""
    if value is None:
        return
    from dis_command.config_files import KEYS

    if not KEYS["wait"].accepts(value):
        raise click.BadParameter(f"{value!r} is not {KEYS['wait'].values}", ctx, param)
    _remember(ctx, param, value)


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Write the examples of a help page."""
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def write_options(owner: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write a command's own options, then the global ones."""
    own: list[tuple[str, str]] = []
    shared: list[tuple[str, str]] = []
    for param in owner.get_params(ctx):
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if record is not None:
            (shared if param.name in GLOBAL_OPTIONS else own).append(record)
    for title, records in (("Options", own), ("Global options", shared)):
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


# -- options that several commands have ------------------------------------------------------------------------------


def json_option(function: _Function) -> _Function:
    """Add `--json`; the session knows it already, from the command line."""
    return click.option(
        "--json", "as_json", is_flag=True, expose_value=False, help="Print one JSON document."
    )(function)


def dry_run_option(function: _Function) -> _Function:
    """Add `--dry-run`."""
    return click.option(
        "--dry-run", is_flag=True, help="Print what would be done, and change nothing."
    )(function)


def yes_option(function: _Function) -> _Function:
    """Add `--yes`."""
    return click.option("--yes", is_flag=True, help="Ask nothing, and go on.")(function)


def force_option(function: _Function) -> _Function:
    """Add `--force`."""
    return click.option(
        "--force", is_flag=True, help="Replace a file that is there and has other content."
    )(function)


def set_option(function: _Function) -> _Function:
    """Add `--set`, as the parameter `overrides`."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="A.B=VALUE",
        help="Replace one field of the manifest; repeatable.",
    )(function)


def jobs_option(function: _Function) -> _Function:
    """Add `-j`, as the parameter `jobs`."""
    return click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Work at a time.  [env: DIS_JOBS] [default: number of CPUs]",
    )(function)


def vllm_python_option(function: _Function) -> _Function:
    """Add `--vllm-python`, as the parameter `vllm_python`."""
    return click.option(
        "--vllm-python",
        metavar="PATH",
        shell_complete=completion.files,
        help="The Python of an environment with vLLM, for the engine vllm.  [env: DIS_VLLM_PYTHON]",
    )(function)


def transformers_python_option(function: _Function) -> _Function:
    """Add `--transformers-python`, as the parameter `transformers_python`."""
    return click.option(
        "--transformers-python",
        metavar="PATH",
        shell_complete=completion.files,
        help="The Python of an environment with transformers, for that engine.  [env: DIS_TRANSFORMERS_PYTHON]",
    )(function)


def place_option(function: _Function) -> _Function:
    """Add `--in`, as the parameter `place`."""
    return click.option(
        "--in",
        "place",
        type=click.Choice(["image", "environment"]),
        help="Run the engine in the image of the manifest, or outside.  [default: in the image, if one is named and "
        "no Python is]",
    )(function)


def ref_argument(
    name: str = "ref", metavar: str = "REF", **attributes: Any
) -> Callable[[_Function], _Function]:
    """Add an argument that is a REF; the shell completes names, digests and paths."""
    return click.argument(name, metavar=metavar, shell_complete=completion.references, **attributes)


def config_arguments(metavar: str = "CONFIG") -> Callable[[_Function], _Function]:
    """Add CONFIG and `--config`, of which one is given, as the parameters `config` and `config_option`."""
    offered = completion.manifests if "#" in metavar else completion.files

    def add(function: _Function) -> _Function:
        option = click.option(
            "--config",
            "config_option",
            metavar=metavar,
            shell_complete=offered,
            help=f"The same as {metavar}.",
        )
        argument = click.argument("config", required=False, metavar=metavar, shell_complete=offered)
        return argument(option(function))

    return add


def chosen_config(config: str | None, config_option: str | None) -> str:
    """Return the one manifest that was named.

    Raises:
        click.UsageError: None was, or two.
    """
    if config is not None and config_option is not None:
        raise click.UsageError("CONFIG and --config are the same, give one of them")
    chosen = config if config is not None else config_option
    if not chosen:
        raise click.UsageError("no manifest is named: give CONFIG")
    return chosen


def split_target(text: str, default: str) -> tuple[Path, str]:
    """Return the path and the target of `CONFIG[#TARGET]`; a file whose name has a `#` is taken whole."""
    path, hash_mark, target = text.rpartition("#")
    if not hash_mark or _is_file(text):
        return Path(text), default
    if not target:
        raise click.UsageError(f"{text!r} names no target after '#'")
    return Path(path), target


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # too long, or through a directory that may not be entered
        return False


def engine_python(named: str | None) -> Path | None:
    """Return the interpreter of vLLM: `--vllm-python`, else what the settings say."""
    return _interpreter(named, lambda settings: settings.vllm_python(named))


def transformers_interpreter(named: str | None = None) -> Path | None:
    """Return the interpreter of transformers: `--transformers-python`, else what the settings say."""
    return _interpreter(named, lambda settings: settings.transformers_python(named))


def _interpreter(named: str | None, look_up: "Callable[[Settings], Found | None]") -> Path | None:
    context = click.get_current_context(silent=True)
    session = context.find_object(Session) if context is not None else None
    if session is None:
        return None if named is None else Path(named)
    found = look_up(session.settings)
    return None if found is None else Path(found.value)


def job_count(jobs: int | None) -> int:
    """Return how many pieces of work to do at a time: `-j`, else what the settings say, else one for each processor."""
    import os

    if jobs is not None:
        return jobs
    context = click.get_current_context(silent=True)
    session = context.find_object(Session) if context is not None else None
    found = session.settings.jobs(None) if session is not None else None
    return int(found.value) if found is not None else os.cpu_count() or 1
