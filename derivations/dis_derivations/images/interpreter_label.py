"""What an image says of the interpreter in it: the facts that enter the identity of what runs on that interpreter.

An image that dis made says them in a label, so that they are known without running anything. Whatever a worker in it
then says of itself is compared with them, so a label that is not true fails the run.
"""

import json
from collections.abc import Mapping

from dis_store import canonical_json

ENVIRONMENT = "dev.dis.environment"
PYTHON = "dev.dis.python"
INTERPRETER = "dev.dis.interpreter"
_FACTS = frozenset({"python", "libc", "machine"})
_LONGEST = 1000


def interpreter_text(facts: Mapping[str, str]) -> str:
    """Return the facts as a label has them."""
    return canonical_json.encode(dict(facts)).decode("utf-8")


def interpreter_facts(text: str | None) -> dict[str, str] | None:
    """Return the facts in a label, or in what a lock took from one; None for a label that dis did not write."""
    if text is None or len(text) > _LONGEST:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.keys() != _FACTS:
        return None
    return found if all(isinstance(value, str) for value in found.values()) else None
