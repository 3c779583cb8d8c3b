"""Runs whose documents say anything at all, with ids that fit, so that readers go on to what they say."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bundles import Answer, Run, Tensor
from dis_derivations.comparison.diff import diff_bundles
from dis_derivations.comparison.render_text import render_text
from dis_derivations.comparison.render_verify import render_verify
from dis_derivations.comparison.verification import verify_bundles
from dis_derivations.lock.unverified_digests import MEMBER
from dis_derivations.runs.bundle import run_id
from dis_derivations.runs.bundle_documents import load_bundle
from dis_derivations.runs.bundle_reader import DirectoryBundle
from dis_derivations.runs.transcript import transcript
from dis_store import canonical_json, strict_json
from dis_store.errors import InvalidInputError

_DOCUMENTS = {
    "manifest": "manifest.used.json",
    "lock": "lock.used.json",
    "tokens": "tokens.json",
    "engine": "engine.json",
    "bundle": "bundle.json",
}
_LOGITS = {
    "00000.decode": Tensor(np.array([[0.0, 1.0, 2.0]])),
    "00001.prompt": Tensor(np.array([[1.0, 2.0]])),
}
RUN = Run(
    answers=(Answer("one", (5, 6, 7), text="six"), Answer("two", (8, 9), text="eight")),
    logits=_LOGITS,
    trace=({"step": 0, "batch": [0, 1]}, {"step": 1, "batch": [1]}),
).with_manifest(
    inference={"requests": [{"id": "one", "prompt": "p"}], "batching": {"max_num_seqs": 1}}
)
FILES: Mapping[str, bytes] = RUN.files()
SEED = canonical_json.encode({name: json.loads(FILES[file]) for name, file in _DOCUMENTS.items()})
"""All documents of a run as one, to be changed together."""


def compared(place: Path, changed: Mapping[str, bytes]) -> object:
    """Read a run in which some files are others, in every way that the commands do."""
    original, other = place / "original", place / "other"
    for directory, files in ((original, FILES), (other, {**FILES, **changed})):
        directory.mkdir(exist_ok=True)
        for name, data in files.items():
            (directory / name).write_bytes(data)
    left, right = DirectoryBundle(original), DirectoryBundle(other)
    exchanges = transcript(load_bundle(right))
    found: list[object] = [exchanges]
    for one, two in ((left, right), (right, left)):
        report = diff_bundles(one, two, store=None)
        found += [json.dumps(report.to_json()), render_text(report)]
        verified = verify_bundles(one, two)
        found += [json.dumps(verified.to_json(), allow_nan=False), render_verify(verified)]
    return found


def all_documents(place: Callable[[], Path]) -> Callable[[bytes], object]:
    """Return a reader of all documents in one; ids are made to fit where they can."""

    def reading(data: bytes) -> object:
        documents = strict_json.decode(data, name="it")
        if not isinstance(documents, dict) or set(documents) != set(_DOCUMENTS):
            raise InvalidInputError("it is not all documents of a run")
        _fit(documents)
        return compared(
            place(),
            {_DOCUMENTS[name]: canonical_json.encode(value) for name, value in documents.items()},
        )

    return reading


def _fit(documents: dict[str, Any]) -> None:
    bundle, lock = documents["bundle"], documents["lock"]
    if not isinstance(bundle, dict) or not isinstance(lock, dict):
        return
    preimage = {key: value for key, value in lock.items() if key != "lock_id"}
    lock["lock_id"] = bundle["lock_id"] = str(canonical_json.sha256(preimage))
    bundle["manifest_id"] = str(canonical_json.sha256(documents["manifest"]))
    engine = documents["engine"]
    if isinstance(engine, dict):
        bundle["engine"] = {key: value for key, value in engine.items() if key != "format"}
    platform, requests = bundle.get("platform"), bundle.get("requests_digest")
    if isinstance(platform, dict) and isinstance(requests, str):
        bundle["run_id"] = str(
            run_id(bundle["manifest_id"], bundle["lock_id"], requests, platform, bundle.get(MEMBER))  # type: ignore[arg-type]
        )
