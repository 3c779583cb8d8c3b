"""`dis why-depends` and `dis why-alive`."""

import json
from pathlib import Path

from command_line import Dis, Realised


def inputs_of(dis: Dis, ref: str) -> dict[str, str]:
    inputs: dict[str, str] = json.loads(dis("cat", ref, "bundle.json").out)["inputs"]
    return inputs


def results_of(dis: Dis, ref: str) -> str:
    return str(json.loads(dis("cat", ref, "bundle.json").out)["results"])


def test_why_depends_names_the_entries(dis: Dis, realised: Realised) -> None:
    results = results_of(dis, "first")
    outcome = dis("why-depends", "first", results[:12])
    assert outcome.code == 0
    first, second = outcome.out.splitlines()
    assert first == realised.first
    assert second.startswith("  engine.json, logits.safetensors -> ")
    assert second.endswith(f"/{results}")
    document = dis("why-depends", "first", results, "--json").document
    assert document["depends"] is True
    assert [step["object"] for step in document["chain"]] == [results]


def test_why_depends_is_1_where_nothing_refers(dis: Dis, realised: Realised) -> None:
    del realised
    weights = inputs_of(dis, "first")["weights"]
    outcome = dis("why-depends", "first", weights)
    assert (outcome.code, outcome.out) == (1, "")
    assert f"dis why-alive {weights}" in outcome.err
    document = dis("why-depends", "first", weights, "--json").document
    assert (document["depends"], document["chain"]) == (False, [])


def test_why_alive_names_every_root_and_the_way(dis: Dis, realised: Realised) -> None:
    del realised
    inputs = inputs_of(dis, "first")
    outcome = dis("why-alive", inputs["weights"])
    assert outcome.code == 0
    assert "named root first: " in outcome.out
    assert f"  made from weights (run): {inputs['weights'][:12]}" in outcome.out
    document = dis("why-alive", inputs["weights"], "--json").document
    kinds = [root["kind"] for root in document["roots"]]
    assert kinds == ["named", "named", "automatic", "automatic"]
    assert document["roots"][0]["steps"][-1] == {
        "how": "input", "name": "weights", "builder": "run", "object": inputs["weights"],
    }  # fmt: skip


def test_why_alive_is_1_for_what_gc_would_free(dis: Dis, own_store: Realised) -> None:
    results = results_of(dis, "second")
    automatic = f"quickstart.{own_store.path_of('second').name[:8]}"
    assert dis("why-alive", results).code == 0
    assert dis("root", "remove", "second", automatic).code == 0
    outcome = dis("why-alive", results)
    assert (outcome.code, outcome.out) == (1, "")
    assert dis("why-alive", results, "--json").document["alive"] is False
    freed = {each["digest"] for each in dis("gc", "--dry-run", "--json").document["objects"]}
    assert results in freed
    assert Path(own_store.first).name not in freed
