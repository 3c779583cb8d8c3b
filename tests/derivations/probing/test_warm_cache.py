"""The experiment of a warm prefix cache: when there can be one, what it is keyed by, how it is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.engines.protocol import Request, Sampling, Stop
from dis_derivations.graph.compilation import compile_graph
from dis_derivations.graph.graph import Graph
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.manifest.loading import load_manifest
from dis_derivations.probing.experiment import Repetition, Variation, WarmCache, described
from dis_derivations.probing.keeping import keep_verdict
from dis_derivations.probing.probe_schema import probe_schema
from dis_derivations.probing.rendering import render_verdict
from dis_derivations.probing.repetition import repeated
from dis_derivations.probing.verdict import CacheFinding, Comparison, Parting, Result, Verdict
from dis_derivations.probing.warm_cache import FIRST_RUN, cache_settings, warmed
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.errors import BuildError
from json_schema import faults

MANIFEST = Path(__file__).parents[3] / "configs/quickstart.json"
ARTIFACTS = ("model.weight", "model.tokenizer", "model.config", "inference.prompt_dataset")
SETTINGS = {"enable_prefix_caching": True, "prefix_cache_positions": 512}
SAME = Comparison({"tokens": "identical", "logits": "identical"}, 2, 6)


def asked(*lengths: int, max_tokens: int = 24) -> list[Request]:
    greedy = Sampling(0.0, 1.0, -1, max_tokens, None)
    return [
        Request(str(n), tuple(range(length)), greedy, Stop()) for n, length in enumerate(lengths)
    ]


@pytest.fixture
def graph() -> Graph:
    loaded = load_manifest(MANIFEST, ("runtime.execution.backend=vllm",))
    files = tuple(
        LockedFile(name, f"{name}.json", 1, Sha256.of(b"x"), False, "computed", {})
        for name in ARTIFACTS
    )
    return compile_graph(loaded, Lock(loaded.manifest_id, "2026-01-01T00:00:00Z", files, {}))


def test_a_prompt_that_fills_no_block_is_not_cached() -> None:
    used = {"block_size": 32, "max_model_len": 512}
    # Of a prompt at least one position is computed, so 32 are too few.
    for lengths in ((5, 32), (1,)):
        with pytest.raises(BuildError, match=f"blocks of 32 .* has {max(lengths)}"):
            cache_settings(used, asked(*lengths))
    assert cache_settings(used, asked(5, 33))["enable_prefix_caching"] is True


def test_all_prompts_and_answers_have_room_in_the_cache() -> None:
    used = {"block_size": 32, "max_model_len": 512}
    found = cache_settings(used, asked(40, 104, 105))
    # In whole blocks of 128, and one more each.
    assert found["prefix_cache_positions"] == (1 + 1) * 128 + (1 + 1) * 128 + (2 + 1) * 128
    endless = cache_settings(used, asked(40, max_tokens=1 << 20))
    assert endless["prefix_cache_positions"] == 512 + 128


def test_it_is_built_for_a_closure_of_its_own_and_keyed_by_it(graph: Graph) -> None:
    made = warmed(graph, WarmCache(), SETTINGS)
    for name in ("closure", "generation", "run"):
        assert made.target(name) != graph.target(name)
    closure = made.derivations[made.target("closure")]
    ordinary = graph.derivations[graph.target("closure")]
    added = {
        **ordinary.args["engine"],
        "settings": {**ordinary.args["engine"]["settings"], **SETTINGS},
    }
    assert closure.args == {**ordinary.args, "engine": added}
    probe = made.derivations[made.target("generation")]
    assert (probe.builder, probe.compared) == ("probe", ("results", "first"))
    assert probe.inputs["closure"].derivation == closure.digest
    for name, results in (("run", "results"), (FIRST_RUN, "first")):
        run = made.derivations[made.target(name)]
        assert run.inputs["closure"].derivation == closure.digest
        assert (run.inputs["results"].derivation, run.inputs["results"].output) == (
            probe.digest,
            results,
        )
    # Nothing of the ordinary run is built for it.
    assert not {graph.target("closure"), graph.target("generation")} & set(made.derivations)
    assert made.target("run") != repeated(graph, Repetition("same process")).target("run")


def test_no_manifest_has_these_settings_in_its_closure() -> None:
    loaded = load_manifest(
        MANIFEST,
        ("runtime.execution.backend=vllm", "vllm.engine_args.enable_prefix_caching=true"),
    )
    files = tuple(
        LockedFile(name, f"{name}.json", 1, Sha256.of(b"x"), False, "computed", {})
        for name in ARTIFACTS
    )
    compiled = compile_graph(loaded, Lock(loaded.manifest_id, "2026-01-01T00:00:00Z", files, {}))
    closure = compiled.derivations[compiled.target("closure")]
    assert not SETTINGS.keys() & closure.args["engine"]["settings"].keys()


@pytest.mark.parametrize(
    "experiment",
    [
        Variation({"/inference/batching/max_num_seqs": 1}, reordered=True),
        Repetition("new process", {"OMP_NUM_THREADS": "1"}),
        WarmCache(),
        WarmCache({"/vllm/engine_args/block_size": 32}),
    ],
    ids=lambda each: each.describe(),
)
def test_an_experiment_is_described_from_its_document(
    experiment: Variation | Repetition | WarmCache,
) -> None:
    assert described(json.loads(json.dumps(experiment.to_json()))) == experiment.describe()


class TestVerdict:
    @pytest.fixture
    def verdict(self, store: Store) -> Verdict:
        bundles = []
        for name in ("baseline", "second", "first", "uncached"):
            with store.new_tree() as tree:
                tree.write_bytes("name", name.encode())
                bundles.append(tree.register())
        baseline, second, first, uncached = bundles
        parting = Parting("request-1", 3, 7, 9, "exact tie")
        other = Comparison({"tokens": "differ", "logits": "differ"}, 2, 6, 1, parting)
        finding = CacheFinding(uncached, first, 0, 256, other)
        row = Result("prefix-cache", "differs", "", WarmCache(), second, SAME, prefix_cache=finding)
        made_up = str(Sha256.of(b""))
        return Verdict(
            "tiny", made_up, made_up, "vllm", {"class": "cpu", "facts": {}}, baseline, (row,)
        )

    @pytest.fixture
    def store(self, tmp_path: Path) -> Any:
        with Store.open(tmp_path / "store") as opened:
            yield opened

    def test_it_tells_both_comparisons_and_what_came_from_the_cache(self, verdict: Verdict) -> None:
        text = " ".join(render_verdict(verdict.to_json()).split())
        assert "prefix-cache DIFFERS tokens identical; logits identical; 256 positions" in text
        assert "256 positions from the cache, 0 before it was warm" in text
        assert "against its first answers: tokens of 1 of 2 sequences, first request-1 at 3" in text

    def test_its_runs_are_kept(self, store: Store, verdict: Verdict) -> None:
        digest, _ = keep_verdict(store, verdict)
        (row,) = verdict.results
        finding = row.prefix_cache
        assert finding is not None
        kept = set(store.references(digest))
        assert {row.bundle, finding.first, finding.uncached, verdict.baseline} <= kept

    def test_its_document_follows_the_schema(self, verdict: Verdict) -> None:
        (row,) = json.loads(json.dumps(verdict.to_json()))["checks"]
        schema: Any = probe_schema()["properties"]["checks"]["items"]
        observables = {"tokens": "identical", "logits": "identical", "activations": "not captured"}
        for comparison in (row["comparison"], row["prefix_cache"]["comparison"]):
            comparison["observables"] = observables
        assert faults(row, schema) == []
        del row["prefix_cache"]["cached_tokens"]
        assert faults(row, schema)

    def test_a_verdict_from_before_there_was_this_check_is_shown(self, verdict: Verdict) -> None:
        document = verdict.to_json()
        document["checks"] = [
            {name: value for name, value in check.items() if name != "prefix_cache"}
            for check in document["checks"]
        ]
        assert "1 of 1 check DIFFERS" in render_verdict(document)
