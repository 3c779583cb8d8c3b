"""Digests that no file has: those that an earlier tool made up when a file was not at hand.

Its `digest-bootstrap` filled a missing digest with the SHA-256 of a small JSON object of metadata:
a `kind`, the path of the field, and the names that stood around it. The object was written with
sorted keys, without spaces and in ASCII. Such a digest is recognised here by making it again. One
that was made from another manifest, and then copied, or from a field that was later edited, is not:
that a digest is not recognised says nothing for it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from dis_derivations.manifest import json_pointer
from dis_derivations.manifest.text_forms import declared_sha256
from dis_store.digest import Sha256

_FILE_GROUPS = ("weights", "tokenizer", "config")
# What a digest field held before it was filled; None where it was absent.
_BEFORE = ("sha256:unset", "unset", "", None)


def invented_digests(document: Mapping[str, Any]) -> dict[str, Sha256]:
    """Return the recognised digests of a merged, valid manifest, by the pointer of their field."""
    found: dict[str, Sha256] = {}
    for pointer, preimage in _preimages(document):
        declared = declared_sha256(json_pointer.get(document, pointer))
        if declared is not None and declared == _fingerprint(preimage):
            found[pointer] = declared
    return found


def _fingerprint(preimage: Mapping[str, Any]) -> Sha256:
    text = json.dumps(preimage, sort_keys=True, separators=(",", ":"))
    return Sha256(f"sha256:{hashlib.sha256(text.encode('ascii')).hexdigest()}")


def _preimages(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from _model_files(document)
    yield from _packages(document)
    yield from _cuda_libraries(document)
    yield from _remote_code(document)


def _model_files(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    model = document["model"]
    source = model["weights"]["source"]
    places = [
        (
            f"/model/{group}/files/{index}",
            file["path"],
            f"model.{group}.files[{{}}].digest",
            len(files),
        )
        for group in _FILE_GROUPS
        for files in [model.get(group, {}).get("files", [])]
        for index, file in enumerate(files)
    ]
    template = model.get("chat_template", {}).get("file")
    if template:
        places.append(
            ("/model/chat_template/file", template["path"], "model.chat_template.file.digest", 1)
        )
    for pointer, path, field, count in places:
        # The list may have been reordered since, so each position in it is tried.
        for index in range(count):
            yield (
                f"{pointer}/digest",
                {
                    "kind": "bootstrap_model_digest",
                    "field_path": field.format(index),
                    "repo": _repository(source),
                    "revision": source.get("revision", ""),
                    "relative_path": path,
                },
            )


def _packages(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    packages = (document["software_stack"].get("python") or {}).get("packages", [])
    for index, package in enumerate(packages):
        for before in _BEFORE:
            source = {**package["source"], "digest": before}
            if before is None:
                del source["digest"]
            yield (
                f"/software_stack/python/packages/{index}/source/digest",
                {
                    "kind": "bootstrap_python_package_digest",
                    "field_path": f"software_stack.python.packages[{index}].source.digest",
                    "name": package["name"],
                    "source": source,
                    "version": package.get("version", ""),
                },
            )


def _cuda_libraries(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, library in document["cuda_stack"].get("userspace", {}).items():
        if isinstance(library, dict):
            yield (
                f"/cuda_stack/userspace/{name}/digest",
                {
                    "kind": "bootstrap_cuda_digest",
                    "field_path": f"cuda_stack.userspace.{name}.digest",
                    "lib_name": name,
                    "version": library.get("version", ""),
                },
            )


def _remote_code(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    source = document["model"]["weights"]["source"]
    yield (
        "/model/weights/source/remote_code_digest",
        {
            "kind": "bootstrap_remote_code_digest",
            "field_path": "model.weights.source.remote_code_digest",
            "repo": _repository(source),
            "commit": source.get("remote_code_commit", ""),
        },
    )


def _repository(source: Mapping[str, Any]) -> str:
    return str(source.get("repo", source.get("id", "")))
