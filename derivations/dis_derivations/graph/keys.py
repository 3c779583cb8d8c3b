"""The key of a build: what its result is remembered by.

A *fixed output* is remembered by its files alone, so that a hub, a mirror and a local disk are
interchangeable sources of it. Every other build is remembered by what its builder was given: two
ways to the same inputs share one result. Names, outputs and the derivations of inputs are not in a
key.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dis_derivations.graph.derivation import FORMAT, Derivation
from dis_store import canonical_json
from dis_store.digest import Digest


def fixed_output_key(files: Iterable[Mapping[str, Any]]) -> Digest:
    """Return the key of a tree of known files.

    Args:
        files: For each file `path`, `size` (bytes), `sha256` (with its `sha256:` tag) and
            `executable` (false when absent). Their order does not matter.
    """
    listed = [
        {
            "path": file["path"],
            "size": file["size"],
            "sha256": file["sha256"],
            "executable": bool(file.get("executable", False)),
        }
        for file in files
    ]
    return canonical_json.digest(sorted(listed, key=lambda file: str(file["path"]).encode()))


def build_key(
    derivation: Derivation, inputs: Mapping[str, Digest], platform_facts: Mapping[str, Any]
) -> Digest:
    """Return the key of `derivation` once its inputs are realised.

    Args:
        derivation: The build.
        inputs: The object that each input turned out to be.
        platform_facts: The measured facts of the derivation's platform class; empty for `any`.
    """
    if (files := derivation.fixed_files) is not None:
        return fixed_output_key(files)
    return canonical_json.digest(
        {
            "format": FORMAT,
            "builder": derivation.builder,
            "builder_version": derivation.builder_version,
            "args": dict(derivation.args),
            "inputs": {name: str(digest) for name, digest in inputs.items()},
            "platform": {"class": derivation.platform, "facts": dict(platform_facts)},
        }
    )
