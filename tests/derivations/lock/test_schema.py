"""The JSON Schema of a lock."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.lock.document import Lock
from dis_derivations.lock.schema import lock_schema
from dis_store.errors import DisError

SHIPPED = Path(__file__).parents[3] / "configs" / "quickstart.lock.json"


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Tell whether a value fits, as far as the words go that this schema uses."""
    if "type" not in schema:
        return value in schema.get("enum", [schema.get("const")])
    kind = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if type(value) is not kind[schema["type"]]:
        return False
    if isinstance(value, str):
        return bool(re.search(schema.get("pattern", ""), value)) and len(value) >= schema.get(
            "minLength", 0
        )
    if isinstance(value, list):
        return all(fits(item, schema["items"]) for item in value)
    if isinstance(value, dict) and "properties" in schema:
        return set(value) == set(schema["required"]) and all(
            fits(item, schema["properties"][name]) for name, item in value.items()
        )
    return not isinstance(value, int) or value >= schema.get("minimum", value)


def test_a_real_lock_fits() -> None:
    assert fits(json.loads(SHIPPED.read_bytes()), lock_schema())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("kind",), "other"),
        (("schema_version",), 2),
        (("lock_id",), "0" * 64),
        (("artifacts", 0, "size"), -1),
        (("artifacts", 0, "digest"), "sha256:unset"),
        (("artifacts", 0, "digest_source"), "guessed"),
        (("artifacts", 0, "extra"), 1),
        (("extra",), 1),
    ],
)
def test_what_does_not_fit_is_refused_by_the_decoder_as_well(
    path: tuple[str | int, ...], value: object
) -> None:
    document = json.loads(SHIPPED.read_bytes())
    *above, last = path
    place = document
    for step in above:
        place = place[step]
    place[last] = value
    assert not fits(document, lock_schema())
    with pytest.raises(DisError):
        Lock.decode(json.dumps(document).encode(), name="a lock")
