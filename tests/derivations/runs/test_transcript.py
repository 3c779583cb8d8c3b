"""A run as what was asked and answered."""

import json
from pathlib import Path

import pytest

from bundles import Run
from dis_derivations.runs.bundle import run_id
from dis_derivations.runs.bundle_documents import load_bundle
from dis_derivations.runs.bundle_reader import DirectoryBundle, StoredBundle
from dis_derivations.runs.transcript import Turn, transcript
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError
from run_shelf import add_object


def test_answers_come_in_the_order_of_the_requests(store: Store, run: Digest) -> None:
    exchanges = transcript(load_bundle(StoredBundle(store, run)), store)
    assert [(each.id, each.answer) for each in exchanges] == [("first", "six"), ("second", "eight")]
    assert [(each.prompt_tokens, each.output_tokens) for each in exchanges] == [(3, 2), (3, 1)]
    assert [(each.prompt, each.conversation) for each in exchanges] == [(None, ()), (None, ())]


def test_plain_prompts_come_from_the_requests_in_the_store(store: Store, example: Run) -> None:
    requests = {"requests": [{"id": "first", "prompt": "one?"}, {"id": "second", "prompt": None}]}
    digest = add_object(store, {"requests.json": json.dumps(requests).encode()})
    run = _with_requests(example, digest)
    bundle = load_bundle(StoredBundle(store, add_object(store, run)))
    assert [each.prompt for each in transcript(bundle, store)] == ["one?", None]
    assert [each.prompt for each in transcript(bundle)] == [None, None]


def test_plain_prompts_of_the_manifest_are_known_without_a_store(
    example: Run, tmp_path: Path
) -> None:
    run = example.with_manifest(inference={"requests": [{"id": "second", "prompt": "two?"}]})
    bundle = load_bundle(run.write(tmp_path))
    assert [each.prompt for each in transcript(bundle)] == [None, "two?"]


def test_conversations_are_kept_turn_by_turn(example: Run, tmp_path: Path) -> None:
    _set_conversations(example, tmp_path, [[{"role": "user", "content": "hi"}], None])
    exchanges = transcript(load_bundle(example.write(tmp_path / "other")))
    assert exchanges[0].conversation == ()
    exchanges = transcript(load_bundle(DirectoryBundle(tmp_path)))
    assert exchanges[0].conversation == (Turn("user", "hi"),)


@pytest.mark.parametrize("conversations", [7, [7], [[7]], [[{"role": "user"}]]])
def test_malformed_conversations_are_refused(
    example: Run, tmp_path: Path, conversations: object
) -> None:
    _set_conversations(example, tmp_path, conversations)
    with pytest.raises(InvalidInputError, match="malformed"):
        transcript(load_bundle(DirectoryBundle(tmp_path)))


def _set_conversations(run: Run, directory: Path, conversations: object) -> None:
    run.write(directory)
    path = directory / "tokens.json"
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps({**document, "conversations": conversations}), encoding="utf-8")


def _with_requests(run: Run, digest: Digest) -> dict[str, bytes]:
    """Return the files of the bundle of a run whose requests are a given object."""
    files = run.files()
    document = json.loads(files["bundle.json"])
    document["requests_digest"] = document["inputs"]["requests"] = str(digest)
    document["run_id"] = str(
        run_id(document["manifest_id"], document["lock_id"], digest, document["platform"])
    )
    return {**files, "bundle.json": json.dumps(document).encode()}
