"""Probes of a tiny model: all holds on the reference engine, and what an engine breaks is found."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from dis_derivations.graph.sharding import SHARD_REQUESTS
from dis_derivations.probing.checks import chosen
from dis_derivations.probing.keeping import keep_verdict, read_verdict
from dis_derivations.probing.plot import plot
from dis_derivations.probing.preparing import laboratory_for, plan_probe
from dis_derivations.probing.probe import probe
from dis_derivations.probing.probe_schema import probe_schema
from dis_derivations.probing.rendering import render_plan, render_verdict
from dis_derivations.probing.verdict import Result, Verdict
from dis_derivations.realisation.events import Event, Reporter
from dis_derivations.realisation.silence import silent
from dis_derivations.realisation.target import TargetRequest
from dis_store import Store
from dis_store.errors import InterruptedBuildError
from fickle_engine import Fickleness, fickle
from json_schema import faults
from tiny_runs import realise, write_manifest

QUICK = ("same-process", "alone", "batch-size", "order")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_manifest(tmp_path / "tiny")


def probed(
    store: Store, config: Path, names: Sequence[str] = QUICK, reporter: Reporter = silent
) -> Verdict:
    with laboratory_for(store, TargetRequest(config), reporter) as laboratory:
        return probe(laboratory, chosen(names))


def answers(verdict: Verdict) -> dict[str, str]:
    return {each.name: each.answer for each in verdict.results}


def result(verdict: Verdict, name: str) -> Result:
    return next(each for each in verdict.results if each.name == name)


def test_all_holds_on_the_reference_engine(store: Store, config: Path) -> None:
    verdict = probed(store, config, ())

    assert answers(verdict) == {
        "same-process": "holds",
        "new-process": "holds",
        "alone": "holds",
        "batch-size": "holds",
        "order": "holds",
        "prefix-cache": "not run",
        "threads": result(verdict, "threads").answer,
        "instruction-set": result(verdict, "instruction-set").answer,
        "reference": "not run",
    }
    assert "differs" not in answers(verdict).values()
    assert verdict.holds
    comparison = result(verdict, "alone").comparison
    assert comparison is not None
    assert (comparison.status["tokens"], comparison.status["logits"]) == ("identical", "identical")


def test_an_experiment_is_made_and_not_taken_from_another_one(store: Store, config: Path) -> None:
    with laboratory_for(store, TargetRequest(config), silent) as laboratory:
        verdict = probe(laboratory, chosen(QUICK))
    # The baseline and one generation a check: that batches change nothing is found out, not assumed.
    assert laboratory.built == 1 + len(QUICK)
    assert not any(each.cached for each in verdict.results)

    again = probed(store, config)
    assert all(each.cached for each in again.results)
    assert again.to_json() == verdict.to_json()


def test_a_batch_dependent_engine_is_found_out(store: Store, config: Path) -> None:
    with fickle(Fickleness(per_companion=0.25, token=2)):
        verdict = probed(store, config)

    assert answers(verdict) == {
        "same-process": "holds",
        "alone": "differs",
        "batch-size": "differs",
        "order": "differs",  # the first request of a run has another second token
    }
    assert not verdict.holds
    comparison = result(verdict, "alone").comparison
    assert comparison is not None
    assert comparison.tokens is not None
    assert (comparison.tokens.request, comparison.tokens.position) == ("request-00000", 1)
    assert (comparison.parted, comparison.sequences) == (1, 3)
    assert comparison.tensors is not None
    assert (comparison.tensors.observable, comparison.tensors.row) == ("logits", 0)
    assert comparison.largest_error == pytest.approx(0.25, rel=1e-3)
    assert comparison.errors[0].position == 0
    assert comparison.positions == 6
    text = render_verdict(verdict.to_json())
    assert "3 of 4 checks DIFFER" in text
    assert "first request-00000 at 1 (" in text


def test_equal_tokens_do_not_hide_other_logits(store: Store, config: Path) -> None:
    with fickle(Fickleness(per_companion=0.25)):
        verdict = probed(store, config, ("alone", "order"))

    assert answers(verdict) == {"alone": "differs", "order": "holds"}
    comparison = result(verdict, "alone").comparison
    assert comparison is not None
    assert (comparison.tokens, comparison.parted) == (None, 0)
    assert "tokens identical; logits from decode row 0" in render_verdict(verdict.to_json())


def test_an_engine_that_remembers_is_found_out(store: Store, config: Path) -> None:
    with fickle(Fickleness(per_repetition=0.5)):
        assert answers(probed(store, config, ("same-process", "alone"))) == {
            "same-process": "differs",
            "alone": "holds",
        }


def test_requests_are_matched_whatever_their_order(store: Store, config: Path) -> None:
    with fickle(Fickleness(memory_of_order=True)):
        verdict = probed(store, config, ("order", "alone"))
    assert answers(verdict) == {"alone": "holds", "order": "differs"}


def test_an_engine_of_this_process_alone_is_not_that_of_a_new_one(
    store: Store, config: Path
) -> None:
    with fickle(Fickleness(per_companion=0.25)):
        assert answers(probed(store, config, ("new-process",))) == {"new-process": "differs"}


def test_the_shards_of_a_long_run_are_made_again(store: Store, tmp_path: Path) -> None:
    config = write_manifest(tmp_path / "tiny", prompts=("abba",) * (SHARD_REQUESTS + 2))
    document = json.loads(config.read_bytes())
    document["inference"]["request_template"]["sampling"]["max_tokens"] = 2
    document["inference"]["batching"]["max_num_seqs"] = SHARD_REQUESTS
    config.write_text(json.dumps(document), "utf-8")
    with fickle(Fickleness(per_companion=0.25)):
        realised = probed(store, config, ("new-process",))
    # Taken from the store, they would be those that the fickle engine made.
    assert answers(realised) == {"new-process": "differs"}


def test_an_experiment_that_fails_is_not_run(store: Store, config: Path) -> None:
    probed(store, config, ("order",))
    # The batch of three does not come to an end.
    with fickle(Fickleness(token=3)), pytest.MonkeyPatch.context() as patches:
        patches.setattr("fickle_engine.replace", _fail)
        verdict = probed(store, config, ("batch-size", "order"))
    found = result(verdict, "batch-size")
    assert found.answer == "not run"
    assert "the engine broke" in found.reason
    assert len(found.failures) == 1
    assert verdict.holds


def _fail(*_: object, **__: object) -> None:
    from dis_store.errors import BuildError

    raise BuildError("the engine broke")


def test_an_interrupted_probe_goes_on(store: Store, config: Path) -> None:
    def interrupt(event: Event) -> None:
        if event.kind == "note" and event.subject == "order":
            raise InterruptedBuildError("interrupted")

    with pytest.raises(InterruptedBuildError):
        probed(store, config, reporter=interrupt)

    after = probed(store, config)
    known = [each.cached for each in after.results]
    assert known == [True, True, True, False]


def test_a_run_that_captures_enough_is_the_baseline_itself(store: Store, tmp_path: Path) -> None:
    capture = {
        "tokens": True,
        "logits": {"enabled": True, "capture_decode": True},
        "engine_trace": {"enabled": True},
    }
    config = write_manifest(tmp_path / "tiny", capture=capture)
    run = realise(store, config)
    verdict = probed(store, config, ("same-process",))
    assert verdict.baseline == run.outputs["bundle"]
    # What holds in every bit, batches included, is the same run.
    assert result(verdict, "same-process").bundle == verdict.baseline


def test_a_plan_builds_nothing(store: Store, config: Path) -> None:
    request = TargetRequest(config)
    unlocked = plan_probe(store, request, chosen(()))
    assert (unlocked.locks, unlocked.baseline_known) == (True, None)
    assert not config.with_name("tiny.lock.json").exists()
    assert "the manifest would be locked first" in render_plan(unlocked)

    probed(store, config, ("alone",))
    before = len(store.objects())
    planned = plan_probe(store, request, chosen(("alone", "batch-size", "order", "prefix-cache")))
    assert [each.known for each in planned.checks] == [True, False, False, None]
    assert planned.baseline_known is True
    assert len(store.objects()) == before
    json.dumps(planned.to_json(), allow_nan=False)


class TestVerdict:
    @pytest.fixture
    def verdict(self, store: Store, config: Path) -> Verdict:
        with fickle(Fickleness(per_companion=0.25, token=2)):
            return probed(store, config, ("same-process", "alone", "prefix-cache"))

    def test_it_is_kept_with_its_runs(self, store: Store, verdict: Verdict) -> None:
        digest, root = keep_verdict(store, verdict)

        assert root == f"tiny-probe.{digest[:8]}"
        kept = store.root(root)
        assert kept is not None
        assert (kept.object, kept.automatic) == (digest, True)
        assert read_verdict(store, digest) == verdict.to_json()
        assert verdict.baseline in store.references(digest)
        assert keep_verdict(store, verdict) == (digest, root)
        assert read_verdict(store, verdict.baseline) is None

    def test_its_document_follows_the_schema(self, verdict: Verdict) -> None:
        document = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
        assert faults(document, probe_schema()) == []
        assert faults({**document, "holds": "no"}, probe_schema()) == [
            "$.holds: 'no' is no boolean"
        ]

    def test_its_picture_has_a_row_for_each_check(self, verdict: Verdict) -> None:
        picture: Any = ET.fromstring(plot(verdict.to_json(), 6))  # noqa: S314 - our own
        texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
        for name in ("same-process", "alone", "prefix-cache"):
            assert name in texts
        assert "differs, logit error up to 0.25" in texts
        circles = list(picture.iter("{http://www.w3.org/2000/svg}circle"))
        assert len(circles) == 1
