"""Whether a manifest would realise here, as far as that can be told without reading weights."""

from collections.abc import Callable, Iterator
from pathlib import Path

from dis_derivations.lock.resolution import plan_lock
from dis_derivations.manifest.artifact_groups import WEIGHTS
from dis_derivations.manifest.loading import LoadedManifest, load_manifest
from dis_store.errors import DisError


def remaining_work(path: Path) -> tuple[DisError, ...]:
    """Return what stands in the way of realising a manifest; nothing where it can be done now."""
    try:
        loaded = load_manifest(path)
    except DisError as error:
        return (error,)
    return tuple(_refusals(loaded))


def _refusals(loaded: LoadedManifest) -> Iterator[DisError]:
    from dis_derivations.realisation import preflight

    def check_lock() -> None:
        sizes = {plan.group.name: plan.size for plan in plan_lock(loaded)}
        preflight.check_memory(sizes.get(WEIGHTS, 0), loaded.document)

    checks: tuple[Callable[[], object], ...] = (
        lambda: preflight.check_manifest(loaded.document),
        lambda: preflight.check_model(loaded, ask_hub=True),
        check_lock,
    )
    for check in checks:
        try:
            check()
        except DisError as error:
            yield error
