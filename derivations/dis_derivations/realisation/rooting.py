"""Keep what was realised from being collected: automatic roots of runs, named roots and result links."""

import re
from dataclasses import replace
from datetime import UTC, datetime

from dis_derivations.realisation.target import RealisedTarget, TargetRequest
from dis_store import Retention, Root, Store
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError
from dis_store.roots import longer

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")
_LONGEST_NAME = 100
_UNVERIFIED = "-unverified"
# Eight digits tell runs of one name apart; more are used only where a root of that name keeps
# something else.
_DIGITS_IN_NAME = (8, 16, 64)


def check(store: Store, request: TargetRequest) -> None:
    """Refuse a root or a result link now and not after hours of building.

    Raises:
        InvalidInputError: The name is refused, or the link cannot be made.
        IntegrityError: There is a root of that name, and its record is damaged.
        UnfitEnvironmentError: The working directory, from which the link is named, is gone.
    """
    if request.root is not None:
        store.root(request.root)
    if request.out_link is not None:
        from dis_store.result_links import check_link

        check_link(request.out_link)


def keep(store: Store, realised: RealisedTarget, request: TargetRequest) -> tuple[str, ...]:
    """Root `realised` as the request and the kind of target ask; return its roots.

    A run is always rooted: a bare collection must never destroy a generation. Roots that are already
    there are left as they are.
    """
    names: list[str] = []
    if realised.target == "run":
        names.append(keep_run(store, realised))
    if request.root is not None:
        _set(store, request.root, _root_of(realised))
        names.append(request.root)
    if request.out_link is not None:
        store.add_result_link(request.out_link, _root_of(realised))
        names.append(str(request.out_link))
    return tuple(names)


def keep_run(store: Store, run: RealisedTarget) -> str:
    """Root a run as `<manifest name>.<8 digits of the bundle>`; return that name.

    The name of a run whose digests were not verified says so: `<manifest name>-unverified.<8 digits>`.
    """
    label = label_of(run.name) + (_UNVERIFIED if run.unverified is not None else "")
    name = _automatic_name(store, label, run.main_output)
    retention = (
        Retention(run.retention_days, f"the manifest {run.name}") if run.retention_days else None
    )
    _set(store, name, replace(_root_of(run), automatic=True, retention=retention))
    return name


def keep_automatically(store: Store, label: str, digest: Digest) -> str:
    """Root an object that no derivation made, as a run is; return the root's name, `<label>.<8 digits>`."""
    name = _automatic_name(store, label_of(label), digest)
    _set(store, name, Root(object=digest, automatic=True, label=label))
    return name


def _automatic_name(store: Store, label: str, digest: Digest) -> str:
    for digits in _DIGITS_IN_NAME:
        name = f"{label}.{digest[:digits]}"
        known = store.root(name)
        if known is None or known.object == digest:
            break
    return name


def label_of(name: str) -> str:
    """Return a name that people gave as the beginning of the name of a root."""
    label = _NOT_IN_NAMES.sub("-", name).strip("-.")[:_LONGEST_NAME] or "run"
    # A device of Windows (`con`, `aux`) is refused as a name, whatever its ending.
    return label if _is_accepted(f"{label}.0") else f"run-{label}"


def _is_accepted(name: str) -> bool:
    from dis_store.roots import check_name

    try:
        check_name(name)
    except InvalidInputError:
        return False
    return True


def _root_of(realised: RealisedTarget) -> Root:
    return Root(
        object=realised.main_output,
        derivation=realised.derivation,
        key=realised.key,
        label=realised.name,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        include=realised.include,
    )


def _set(store: Store, name: str, root: Root) -> None:
    """Set a root unless it already keeps the same thing; a named root is never turned into an automatic one.

    What was promised stays: the longest retention that was ever asked for.
    """
    known = store.root(name)
    if known is not None and known.object == root.object:
        root = replace(
            root,
            automatic=known.automatic and root.automatic,
            label=known.label or root.label,
            created_at=known.created_at,
            retention=longer(known.retention, root.retention),
        )
        # For another derivation or label alone, which say no more, nothing is written.
        if replace(known, derivation=root.derivation, label=root.label) == root:
            store.note_use(name)
            return
    store.set_root(name, root)
