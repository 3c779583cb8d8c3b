"""Several runs at once: clusters of those that agree."""

import json
from pathlib import Path

from bundles import Answer, Run, Tensor
from dis_derivations.comparison.matrix import Matrix, matrix
from dis_derivations.comparison.render_matrix import render_matrix
from dis_derivations.comparison.text_layout import WIDTH
from dis_derivations.runs.bundle_documents import load_bundle


def compared(tmp_path: Path, **runs: Run) -> Matrix:
    bundles = [load_bundle(run.write(tmp_path / name)) for name, run in runs.items()]
    return matrix(list(runs), bundles)


def run(token: int, logit: float = 1.0, **changes: object) -> Run:
    return Run(
        answers=(Answer("only", (token,)),), logits={"00000.decode": Tensor([[0.0, logit]])}
    ).having(**changes)


def test_runs_that_agree_are_together_whatever_their_descriptions(tmp_path: Path) -> None:
    found = compared(
        tmp_path, odd=run(1), one=run(0), two=run(0, name="other"), near=run(0, 1.5), three=run(0)
    )

    assert [cluster.members for cluster in found.clusters] == [(1, 2, 4), (0,), (3,)]
    assert [cluster.members for cluster in found.token_clusters] == [(1, 2, 3, 4), (0,)]
    assert [parting.observables for parting in found.partings] == [("tokens",), ("logits",)]
    assert found.partings[0].first == ("only", 0)
    assert found.partings[1].first is None
    assert not found.same


def test_runs_that_all_agree_are_one_cluster(tmp_path: Path) -> None:
    found = compared(tmp_path, one=run(0), two=run(0))

    assert found.same
    assert "2 runs: ALL AGREE" in render_matrix(found)


def test_what_one_run_did_not_capture_does_not_agree(tmp_path: Path) -> None:
    found = compared(tmp_path, one=run(0), two=run(0, logits=None))

    assert [cluster.members for cluster in found.clusters] == [(0,), (1,)]
    assert [cluster.members for cluster in found.token_clusters] == [(0, 1)]


def test_the_text_has_clusters_and_a_grid(tmp_path: Path) -> None:
    text = render_matrix(compared(tmp_path, one=run(0), two=run(1), three=run(0), near=run(0, 2.0)))

    assert "4 runs: 3 clusters" in text
    assert 'differs from a: tokens; 1 sequence, first "only" at 0' in text
    assert "  1  one    = · = t" in text
    assert "  2  two    · = · ·" in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_the_document_names_runs_by_place(tmp_path: Path) -> None:
    document = json.loads(json.dumps(compared(tmp_path, one=run(0), two=run(1)).to_json()))

    assert document["clusters"] == [[0], [1]]
    assert [each["ref"] for each in document["runs"]] == ["one", "two"]
    assert document["partings"][0]["first"] == {"request_id": "only", "position": 0}
    assert str(tmp_path) not in json.dumps(document)
