"""The command `dis` and the table of its commands."""

import click

from dis_command.lazy_group import LazyCommand, LazyGroup
from dis_derivations.version import VERSION

_RUNS, _MANIFESTS, _STORE, _MACHINE = "Runs", "Manifests and locks", "The store", "This machine"
_TRUST, _REGISTRIES = "Trust", "Registries"


def _entry(module: str, attribute: str, text: str, section: str) -> LazyCommand:
    return LazyCommand(f"dis_command.commands.{module}", attribute, text, section)


COMMANDS = {
    "realize": _entry(
        "realize", "realize", "Build a target of a manifest, or find it built.", _RUNS
    ),
    "run": _entry("run", "run", "Realise a run and lay it out as a directory of files.", _RUNS),
    "serve": _entry("serve", "serve", "Start, list and stop vLLM servers of pinned models.", _RUNS),
    "show": _entry("show", "show", "Print the prompts and answers of a run.", _RUNS),
    "list": _entry("list_", "list_", "List the runs in the store.", _RUNS),
    "diff": _entry(
        "diff", "diff", "Compare two things bit for bit, or many runs with each other.", _RUNS
    ),
    "bisect": _entry(
        "bisect", "bisect", "Find by experiment which difference makes two runs part.", _RUNS
    ),
    "probe": _entry("probe", "probe", "Check what a manifest's results do not depend on.", _RUNS),
    "report": _entry("report", "report", "Write the validation record of a run.", _RUNS),
    "verify": _entry(
        "verify", "verify", "Grade two runs against each other and write a report.", _RUNS
    ),
    "log": _entry("log", "log", "Print the log of the build that made a run.", _RUNS),
    "bundle": _entry("bundle", "bundle", "Pack a run into one file.", _RUNS),
    "init": _entry("init", "init", "Write a manifest to begin with.", _MANIFESTS),
    "lock": _entry("lock", "lock", "Pin every file of a manifest to its digest.", _MANIFESTS),
    "digest-bootstrap": _entry(
        "digest_bootstrap",
        "digest_bootstrap",
        "Fill the digests of a manifest from its files.",
        _MANIFESTS,
    ),
    "build": _entry("build", "build", "Build what an engine loads, and describe it.", _MANIFESTS),
    "show-derivation": _entry(
        "show_derivation",
        "show_derivation",
        "Print the derivations of a locked manifest.",
        _MANIFESTS,
    ),
    "inspect": _entry(
        "inspect", "inspect", "Describe a manifest, a lock, a run or an object.", _MANIFESTS
    ),
    "schema": _entry(
        "schema",
        "schema",
        "Print the JSON Schema of a manifest, of a lock, or of what a command prints.",
        _MANIFESTS,
    ),
    "ls": _entry("ls", "ls", "List the files of an object or a run.", _STORE),
    "cat": _entry("cat", "cat", "Print a file of an object or a run.", _STORE),
    "path-info": _entry(
        "path_info", "path_info", "Print where objects are and what they need.", _STORE
    ),
    "why-depends": _entry(
        "why_depends", "why_depends", "Print how one object refers to another.", _STORE
    ),
    "why-alive": _entry("why_alive", "why_alive", "Print which roots keep an object.", _STORE),
    "root": _entry("root", "root", "Name objects, so that they are kept.", _STORE),
    "image": _entry("image", "image", "Keep, describe, load and make container images.", _STORE),
    "environment": _entry("environment", "environment", "Look at Python environments.", _STORE),
    "push": _entry(
        "push", "push", "Send something with all that belongs to it to a registry.", _REGISTRIES
    ),
    "pull": _entry(
        "pull", "pull", "Fetch something with all that belongs to it from a registry.", _REGISTRIES
    ),
    "remote": _entry("remote", "remote", "Look at what registries hold.", _REGISTRIES),
    "login": _entry(
        "login",
        "login",
        "Store a password for a registry where Docker looks for it.",
        _REGISTRIES,
    ),
    "logout": _entry("login", "logout", "Remove the password for a registry.", _REGISTRIES),
    "gc": _entry("gc", "gc", "Free what no root keeps.", _STORE),
    "store": _entry("store", "store", "Fill, count, verify and rebuild the store itself.", _STORE),
    "key": _entry("key", "key", "Make and list the keys that sign builds.", _TRUST),
    "sign": _entry("sign", "sign", "Sign what this store built.", _TRUST),
    "verify-signatures": _entry(
        "verify_signatures",
        "verify_signatures",
        "Check who vouches for the builds of a root.",
        _TRUST,
    ),
    "challenge": _entry(
        "challenge", "challenge", "Compare what several builders got of one manifest.", _TRUST
    ),
    "doctor": _entry("doctor", "doctor", "Check that this machine can do the work.", _MACHINE),
    "config": _entry("config", "config", "Show the settings of dis.", _MACHINE),
    "completion": _entry(
        "completion", "completion", "Print what completes command lines in a shell.", _MACHINE
    ),
    "help": _entry("help_", "help_", "Print the help of a command or a topic.", _MACHINE),
}
# Commands of the older tool, each with why it is not there and what to do instead.
_ABSENT = {
    "serve-modal": (
        "this version starts servers on this machine, and none in a cloud",
        "dis serve start CONFIG, on a machine of your own: docs/reference/coming-from-deterministic-inference.md",
    )
}
EXAMPLES = (
    "dis realize configs/quickstart.json --name first",
    "dis show first",
    "dis realize configs/quickstart.json --rebuild",
    "dis diff first second",
)


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value and not ctx.resilient_parsing:
        print(f"dis {VERSION}")
        ctx.exit()


@click.group(cls=LazyGroup, lazy=COMMANDS, examples=EXAMPLES, absent=_ABSENT)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
def dis() -> None:
    """Build, keep and compare LLM inference runs by content."""
