"""`dis sign`: vouching for what this store built."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dis_command import completion
from dis_command.command import command, force_option, json_option, pass_session, ref_argument
from dis_command.commands.key import passphrase_file_option
from dis_command.session import Session
from dis_command.terminal import count_text

if TYPE_CHECKING:
    from dis_derivations.trust.signing import Build


@command("sign", examples=("dis sign first", "dis sign first --key laptop --output first.claims"))
@ref_argument()
@click.option(
    "--key",
    "key_name",
    metavar="NAME",
    shell_complete=completion.keys,
    help="Sign with this key; without it, the only one.",
)
@passphrase_file_option
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    shell_complete=completion.files,
    help="Write the signed documents to FILE as well, one a line.",
)
@force_option
@json_option
@pass_session
def sign(
    session: Session,
    /,
    ref: str,
    key_name: str | None,
    passphrase_file: Path | None,
    output: Path | None,
    force: bool,
) -> None:
    """Sign what this store built.

    Of every build that REF stands for, the claim "this key gave these outputs"
    and the provenance are signed and kept in the store, beside the record of
    the build. Inputs that are known by their digests need no signature, and
    what was built elsewhere is for others to sign; both are left out.
    """
    from dis_command.passphrases import passphrase_source
    from dis_command.trust import key_ring
    from dis_derivations.trust.claims_file import encode_claims
    from dis_derivations.trust.signing import all_builds, sign_builds
    from dis_store.errors import InvalidInputError

    ring = key_ring(session)
    name = ring.signer(key_name)
    with session.open_store() as store:
        builds = all_builds(store, ref)
        if not any(not build.obstacle for build in builds):
            raise InvalidInputError(
                f"nothing of {ref} can be signed",
                cause="; ".join(sorted({f"{each.name}: {each.obstacle}" for each in builds})),
            )
        key = ring.private(name, passphrase_source(passphrase_file))
        signed = sign_builds(store, builds, key)
        if output is not None:
            from dis_derivations.runs.output_file import write_file

            write_file(output, encode_claims(signed), replace=force)
    session.print_result(
        lambda: {
            "schema_version": 1,
            "key": str(key.public.fingerprint),
            "signed": [_row(build) for build in builds if not build.obstacle],
            "left_out": [_row(build) for build in builds if build.obstacle],
        },
        lambda: _text(builds, name),
    )


def _row(build: "Build") -> dict[str, str]:
    return {
        "name": build.name,
        "builder": build.record.builder,
        "key": str(build.record.key),
        "build": build.record.build,
        "obstacle": build.obstacle,
    }


def _text(builds: "list[Build]", name: str) -> str:
    from dis_command.table import aligned

    rows = [
        (build.name, build.record.key[:12], build.obstacle or f"signed by {name}")
        for build in builds
    ]
    done = sum(1 for build in builds if not build.obstacle)
    return f"{aligned(rows)}\n{count_text(done, 'build')} signed"
