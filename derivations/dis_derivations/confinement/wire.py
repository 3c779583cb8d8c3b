"""A build, its end and its failure as JSON, on their way to the process without a network and back."""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dis_store.digest import Digest
from dis_store.errors import BuildError, DisError

if TYPE_CHECKING:
    from dis_derivations.realisation.building import BuildContext, RealisedInput


def order_of(context: "BuildContext") -> dict[str, Any]:
    """Return everything that a builder needs to know of a build, but its sources."""
    patience = context.store.patience
    return {
        "store": str(context.store.path),
        "patience": None if patience is None else patience.seconds,
        "derivation": context.derivation.encode().decode(),
        "inputs": {name: _input(source) for name, source in context.inputs.items()},
        "platform_facts": dict(context.platform_facts),
        "hints": dict(context.hints),
        "observed": files_as_json(context.observed),
        "is_rebuild": context.is_rebuild,
    }


def _input(source: "RealisedInput") -> dict[str, Any]:
    return {
        "object": source.object,
        "key": source.key,
        "log": source.log,
        "platform": dict(source.platform),
    }


def input_of(document: Mapping[str, Any]) -> "RealisedInput":
    """Return an input as it was before it was sent."""
    from dis_derivations.realisation.building import RealisedInput

    return RealisedInput(
        object=Digest(document["object"]),
        key=None if document["key"] is None else Digest(document["key"]),
        log=None if document["log"] is None else Digest(document["log"]),
        platform=document["platform"],
    )


def files_as_json(files: "Mapping[str, bytes | Digest]") -> dict[str, Any]:
    """Return files, or objects in place of them, by path."""
    return {
        path: {"object": content}
        if isinstance(content, Digest)
        else {"data": base64.b64encode(content).decode()}
        for path, content in files.items()
    }


def files_of(document: "Mapping[str, Any]") -> "dict[str, bytes | Digest]":
    """Return what `files_as_json` was given."""
    return {
        path: Digest(each["object"]) if "object" in each else base64.b64decode(each["data"])
        for path, each in document.items()
    }


def failure_as_json(failure: DisError) -> dict[str, Any]:
    """Return what went wrong, by the names of its classes from the closest to the most general."""
    return {
        "kinds": [each.__name__ for each in type(failure).__mro__],
        "what": failure.what,
        "cause": failure.cause,
        "hint": failure.hint,
    }


def failure_of(document: Mapping[str, Any]) -> DisError:
    """Return an error of the closest class that this process knows too."""
    known = {each.__name__: each for each in _classes(DisError)}
    kind = next((known[name] for name in document["kinds"] if name in known), BuildError)
    failure = kind.__new__(kind)
    # Not by its own constructor, which may want other arguments than these.
    DisError.__init__(failure, document["what"], cause=document["cause"], hint=document["hint"])
    return failure


def _classes(above: type[DisError]) -> list[type[DisError]]:
    return [each for below in above.__subclasses__() for each in (below, *_classes(below))]
