"""The `requests_slice` builder: consecutive requests of a run, as the requests of a shorter one."""

from collections.abc import Mapping
from typing import Any

from dis_derivations.builders.requests import REQUESTS_DOCUMENT
from dis_derivations.realisation.building import BuildContext
from dis_store import canonical_json, strict_json
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError


class RequestsSliceBuilder:
    """Makes a `requests.json` of some requests of another, unchanged and in order.

    Args:
        document: The `requests.json` that the input has, for who has read it already.
    """

    version = 1

    def __init__(self, document: Mapping[str, Any] | None = None) -> None:
        self._document = document

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Take the requests from `first` on, `count` of them.

        Raises:
            InvalidInputError: There are not so many.
        """
        first, count = context.derivation.args["first"], context.derivation.args["count"]
        document = self._document or requests_document(context)
        taken = document["requests"][first : first + count]
        if len(taken) != count:
            raise InvalidInputError(
                f"there are no {count} requests from number {first} on",
                cause=f"the run has {len(document['requests'])}",
            )
        context.log.write(f"{count} requests from number {first} on")
        with context.store.new_tree() as tree:
            tree.write_bytes(
                REQUESTS_DOCUMENT, canonical_json.encode({**document, "requests": taken})
            )
            return {"out": tree.register()}


def requests_document(context: BuildContext) -> Mapping[str, Any]:
    """Return the `requests.json` of the input `requests`."""
    data = context.store.read_bytes(context.inputs["requests"].object, REQUESTS_DOCUMENT)
    document: Mapping[str, Any] = strict_json.decode(data, name=REQUESTS_DOCUMENT)
    return document
