"""A store in which a result was built from an input, and refers to another object."""

from dataclasses import dataclass

from dis_store import Input, Realisation, Root, Store
from dis_store.digest import Digest
from run_shelf import add_object


@dataclass(frozen=True)
class Built:
    """What was built: `result` refers to `part`; it was made from `source`, which was made from `origin`."""

    store: Store
    part: Digest
    result: Digest
    log: Digest
    source: Digest
    origin: Digest


_KEY, _KEY_OF_SOURCE = Digest("a" * 64), Digest("b" * 64)


def _record(
    key: Digest, builder: str, outputs: dict[str, Digest], inputs: dict[str, Input]
) -> Realisation:
    now = "2026-01-01T00:00:00+00:00"
    return Realisation(
        key=key,
        builder=builder,
        outputs=outputs,
        compared=("out",),
        inputs=inputs,
        derivation=None,
        platform={},
        origin="built",
        started_at=now,
        finished_at=now,
        host="",
        user="",
    )


def build(store: Store) -> Built:
    """Fill a store, with `mine` as the one root."""
    part, log, source, origin = (
        add_object(store, {"value": name.encode()}) for name in ("part", "log", "source", "origin")
    )
    with store.new_tree() as tree:
        tree.write_bytes("own", b"1")
        tree.reference("a/value", part, "value")
        tree.reference("b", part)
        result = tree.register()
    store.add_realisation(
        _record(_KEY_OF_SOURCE, "files", {"out": source}, {"origin": Input(origin, None)})
    )
    store.add_realisation(
        _record(
            _KEY,
            "generation",
            {"out": result, "log": log},
            {"weights": Input(source, _KEY_OF_SOURCE)},
        )
    )
    store.set_root("mine", Root(result, key=_KEY))
    return Built(store, part, result, log, source, origin)
