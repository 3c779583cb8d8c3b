"""The validation record of a run: what was made of what, how often it came out the same, and where."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bundles import Answer, Run, Tensor
from diff_pages import HOSTILE, Page
from dis_derivations.runs.reference import resolve
from dis_derivations.trust.policy import TrustPolicy
from dis_derivations.validation.gathering import validation_record
from dis_derivations.validation.page import record_page
from dis_derivations.validation.record import ValidationRecord
from dis_derivations.validation.rendering import render_record, reproduction_text
from dis_derivations.validation.signatures import Signatories
from dis_store import Store
from dis_store.digest import Digest
from run_shelf import add_object, make_writable
from signers import NOW
from tiny_runs import realise, write_manifest


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened
    make_writable(tmp_path / "store")


def record_of(store: Store, ref: str) -> ValidationRecord:
    nobody = Signatories(TrustPolicy(), (), {}, NOW)
    return validation_record(store, resolve(store, ref), lambda: nobody)


def test_a_run_says_what_it_was_made_of_and_what_shows_it(store: Store, tmp_path: Path) -> None:
    bundle = realise(store, write_manifest(tmp_path / "tiny")).outputs["bundle"]

    record = record_of(store, bundle)

    assert record.facts["bundle"] == bundle
    parts = {part.name: part for part in record.parts}
    assert parts["weights"].size == store.closure_size(parts["weights"].object)
    evidence = {each.path: each for each in record.evidence}
    tokens = store.read_bytes(bundle, "tokens.json")
    assert evidence["tokens.json"].size == len(tokens)
    assert evidence["tokens.json"].blake3 == Digest.of(tokens)
    assert record.reproductions == (1, 1)
    assert len(record.hosts) == 1


def test_reproductions_are_counted_with_where_they_were_made(store: Store, tmp_path: Path) -> None:
    bundle = realise(store, write_manifest(tmp_path / "tiny")).outputs["bundle"]
    record = record_of(store, bundle)
    assert record.key is not None
    (build,) = store.realisations(record.key)
    other = add_object(store, {"tokens.json": b"{}"})
    same = build.outputs["results"]
    elsewhere = replace(build, host="elsewhere", build="", sequence=0)
    for again in (
        elsewhere,
        replace(elsewhere, outputs={**build.outputs, "results": other}),
        replace(
            elsewhere, host="far", origin="substituted", outputs={**build.outputs, "results": same}
        ),
    ):
        store.add_realisation(again)

    record = record_of(store, bundle)

    assert record.reproductions == (2, 3)
    assert set(record.hosts) == {build.host, "elsewhere"}
    assert reproduction_text(record) == "2 of 3 builds made these results on 2 machines"
    assert "OTHER RESULTS" in render_record(record)
    assert "other results" in record_page(record)


def test_a_run_directory_from_elsewhere_has_a_record_without_builds(
    store: Store, tmp_path: Path
) -> None:
    Run(logits={"00000.decode": Tensor([[0.0]])}).write(tmp_path / "run")

    record = record_of(store, f"{tmp_path / 'run'}/")

    assert record.facts["bundle"] is None
    assert record.builds == ()
    assert reproduction_text(record) == "no build of these results is remembered here"
    assert {part.size for part in record.parts} == {None}
    assert "not in this store" in render_record(record)
    assert [each.path for each in record.evidence][-1] == "logits.safetensors"


def test_hostile_names_are_only_text(store: Store, tmp_path: Path) -> None:
    run = Run(
        name=HOSTILE,
        answers=(Answer(HOSTILE, (1,)),),
        platform_class="cuda",
        facts={HOSTILE: HOSTILE},
        reasons=(HOSTILE,),
        conformant=False,
    ).with_manifest(metadata={"name": HOSTILE, "description": HOSTILE})
    run.write(tmp_path / "run")

    record = record_of(store, f"{tmp_path / 'run'}/")
    page = Page(record_page(record))

    assert page.open == []
    assert not {"script", "img"} & {tag for tag, _ in page.tags}
    assert not {each for each in render_record(record) if not each.isprintable()} - {"\n"}


def test_the_record_is_one_json_document_and_its_digests_can_be_copied(
    store: Store, tmp_path: Path
) -> None:
    record = record_of(store, realise(store, write_manifest(tmp_path / "tiny")).outputs["bundle"])

    document = json.loads(json.dumps(record.to_json(), allow_nan=False))
    assert document["schema_version"] == 1
    assert document["commands"][0]["command"].startswith("dis store verify ")
    text = render_record(record)
    digests = [str(part.object) for part in record.parts] + [
        str(each.blake3) for each in record.evidence
    ]
    assert [digest for digest in digests if digest not in text] == []
