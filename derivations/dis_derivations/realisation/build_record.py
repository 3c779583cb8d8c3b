"""The record of a build: what came out of what, where, when and by whom."""

import socket
from collections.abc import Mapping
from datetime import UTC, datetime

from dis_derivations.realisation.building import BuildContext
from dis_derivations.realisation.recorded_user import recorded_user
from dis_store import Input, Realisation
from dis_store.digest import Digest


def build_record(context: BuildContext, key: Digest, outputs: Mapping[str, Digest]) -> Realisation:
    """Return the record of a build that has just ended.

    Args:
        context: The build.
        key: What its result is remembered by.
        outputs: What it made, its log included.
    """
    derivation = context.derivation
    return Realisation(
        key=key,
        builder=derivation.builder,
        outputs=dict(outputs),
        compared=derivation.compared,
        inputs={
            name: Input(object=source.object, key=source.key)
            for name, source in context.inputs.items()
        },
        derivation=derivation.digest,
        platform={"class": derivation.platform, "facts": dict(context.platform_facts)},
        origin="built",
        started_at=context.log.started_at,
        finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        host=socket.gethostname(),
        user=recorded_user(),
    )
