"""Keep what was realised from being collected: automatic roots of runs, named roots and result links."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from dis_derivations.realisation.target import RealisedTarget, TargetRequest
from dis_store import Root, Store

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")
_DIGITS_IN_NAME = 8


def keep(
    store: Store, realised: RealisedTarget, request: TargetRequest, note: Callable[[str], None]
) -> RealisedTarget:
    """Root `realised` as the request and the kind of target ask, and return it with its roots.

    A run is always rooted, as `<manifest name>.<8 digits of the bundle>`: a bare collection must
    never destroy a generation. Roots that are already there are left as they are.
    """
    root = Root(
        object=realised.main_output,
        derivation=realised.derivation,
        key=realised.key,
        label=realised.name,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    names: list[str] = []
    if realised.target == "run":
        automatic = automatic_name(realised)
        _set(store, automatic, replace(root, automatic=True))
        names.append(automatic)
    if request.root is not None:
        _set(store, request.root, root)
        names.append(request.root)
    if request.out_link is not None:
        store.add_result_link(request.out_link, root)
        names.append(str(request.out_link))
    if not names:
        note("no root keeps the result from `dis gc`; give it one with --name or --out-link")
    return replace(realised, roots=tuple(names))


def automatic_name(realised: RealisedTarget) -> str:
    """Return the name of a run's automatic root."""
    name = _NOT_IN_NAMES.sub("-", realised.name).strip("-.") or "run"
    return f"{name[:100]}.{realised.main_output[:_DIGITS_IN_NAME]}"


def _set(store: Store, name: str, root: Root) -> None:
    """Set a root unless it already keeps the same thing; a named root is never turned into an automatic one."""
    known = store.root(name)
    if (
        known is None
        or (known.object, known.key) != (root.object, root.key)
        or (known.automatic and not root.automatic)
    ):
        store.set_root(name, root)
