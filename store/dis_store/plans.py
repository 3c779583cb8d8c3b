"""The plan cache: opaque answers that hold only while every object they rest on is valid."""

from collections.abc import Sequence

from dis_store.digest import Digest
from dis_store.foundation import Foundation


def remember(foundation: Foundation, key: Digest, value: str, objects: Sequence[Digest]) -> None:
    """Keep `value` under `key`, in place of what was there, until one of `objects` is deleted."""
    with foundation.index.transaction() as transaction:
        transaction.execute("DELETE FROM plans WHERE key = ?", (key,))
        transaction.execute("INSERT INTO plans(key, value) VALUES (?, ?)", (key, value))
        transaction.execute_many(
            "INSERT INTO plan_objects(plan, object) VALUES (?, ?)",
            ((key, each) for each in dict.fromkeys(objects)),
        )


def recall(foundation: Foundation, key: Digest) -> str | None:
    """Return what is kept under `key`, its objects protected and valid; else None.

    The objects become temporary roots before their validity is asked for, as in `Foundation.protect`.
    """
    # One statement, so that the value and the objects belong together whoever writes at the same time.
    rows = foundation.index.query(
        "SELECT value, object FROM plans LEFT JOIN plan_objects ON plan = key WHERE key = ?", (key,)
    )
    if not rows or not foundation.protect(Digest(digest) for _, digest in rows if digest):
        return None
    return str(rows[0][0])
