"""The command probe: its table, its document, its picture, its exit codes."""

import json
from pathlib import Path

import pytest

from command_line import Dis
from dis_derivations.probing.probe_schema import probe_schema
from fickle_engine import Fickleness, fickle
from json_schema import faults
from tiny_runs import write_manifest


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_manifest(tmp_path / "tiny")


def test_claims_that_hold_end_with_zero(dis: Dis, config: Path) -> None:
    outcome = dis("probe", config, "--checks", "same-process,alone,prefix-cache")

    assert outcome.code == 0
    assert "All 2 checks that were made hold" in outcome.out
    assert "alone         holds    tokens identical; logits identical" in outcome.out
    assert "prefix-cache  not run  not applicable: the reference engine has none" in outcome.out
    assert "inference.batching.max_num_seqs=1" in outcome.out


def test_a_claim_that_does_not_hold_ends_with_one(dis: Dis, config: Path, tmp_path: Path) -> None:
    with fickle(Fickleness(per_companion=0.25, token=2)):
        outcome = dis(
            "probe", config, "--checks", "same-process, alone", "--json", "--plot", "p.svg"
        )
    assert outcome.code == 1
    document = outcome.document
    assert [each["answer"] for each in document["checks"]] == ["holds", "differs"]
    assert document["generated"] == 3
    picture = (tmp_path / "p.svg").read_text("utf-8")
    assert picture.startswith("<?xml")

    kept = json.loads(dis("cat", document["root"], "probe.json").out)
    assert kept == {
        name: value
        for name, value in document.items()
        if name not in {"object", "root", "generated"}
    }
    assert faults(kept, probe_schema()) == []
    shown = dis("show", document["root"])
    assert (shown.code, "1 of 2 checks DIFFERS" in shown.out) == (0, True)
    assert dis("show", document["object"], "--json").document == kept
    assert dis("show", f"{document['object'][:8]}").out == shown.out
    # Its runs are kept with it, and are runs like any other.
    other = document["checks"][1]["bundle"]
    assert dis("diff", document["baseline"], other, "--json").document["same"] is False

    again = dis("probe", config, "--checks", "same-process,alone", "--json")
    assert (again.code, again.document["generated"]) == (1, 0)
    assert again.document["object"] == document["object"]


def test_nothing_that_could_be_made_ends_with_five(dis: Dis, config: Path) -> None:
    outcome = dis("probe", config, "--checks", "prefix-cache,reference")
    assert outcome.code == 5
    assert "NO CHECK could be made" in outcome.out
    assert "holds" not in outcome.out


def test_a_check_that_there_is_not_is_refused_before_all(dis: Dis, config: Path) -> None:
    outcome = dis("probe", config, "--checks", "alone,batches")
    outcome.check_one_block()
    assert (outcome.code, "no check 'batches'" in outcome.err) == (2, True)
    assert "batch-size" in outcome.err
    assert not config.with_name("tiny.lock.json").exists()
    assert dis("probe", config, "--checks", "alone").code == 0


def test_a_picture_takes_the_place_of_nothing_unasked(
    dis: Dis, config: Path, tmp_path: Path
) -> None:
    (tmp_path / "p.svg").write_text("mine", "utf-8")
    words = ("probe", config, "--checks", "alone", "--plot", "p.svg")
    refused = dis(*words)
    refused.check_one_block()
    assert (refused.code, (tmp_path / "p.svg").read_text("utf-8")) == (2, "mine")
    assert dis(*words, "--force").code == 0
    assert (tmp_path / "p.svg").read_text("utf-8") != "mine"
    manifest = dis("probe", config, "--checks", "alone", "--plot", config, "--force")
    manifest.check_one_block()
    assert manifest.code == 2


def test_a_dry_run_makes_nothing(dis: Dis, config: Path) -> None:
    outcome = dis("probe", config, "--dry-run")
    assert outcome.code == 0
    assert "the manifest would be locked first" in outcome.out
    assert not config.with_name("tiny.lock.json").exists()

    assert dis("probe", config, "--checks", "alone").code == 0
    plan = dis("probe", config, "--dry-run", "--json", "--checks", "alone,order").document
    assert (plan["dry_run"], plan["baseline_known"]) == (True, True)
    assert [each["known"] for each in plan["checks"]] == [True, False]


def test_an_invalid_manifest_is_told_in_one_block(dis: Dis, config: Path) -> None:
    outcome = dis("probe", config, "--set", "inference.batching.max_num_seqs=0")
    outcome.check_one_block()
    assert outcome.code == 2


def test_what_is_no_verdict_is_shown_as_before(dis: Dis, config: Path) -> None:
    weights = Path(dis("realize", f"{config}#weights").out.strip()).name
    refused = dis("show", weights)
    refused.check_one_block()
    assert "is an object that is not the bundle of a run" in refused.err
