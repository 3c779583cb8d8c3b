"""The commands about weights: diff of objects, and what path-info, show and stats say of tensors."""

from pathlib import Path

import pytest

from command_line import Dis, Realised
from dis_store import tensor_set_digest
from tensor_layouts import Raw, file_of, scanned

A, B = Raw("F32", (2,), bytes(8)), Raw("F32", (2,), bytes(7) + b"\x3f")
WHOLE = file_of({"a": A, "b\x1b]0;x\x07": B})


@pytest.fixture
def models(dis: Dis, own_store: Realised, tmp_path: Path) -> None:
    """Objects: `whole`, `shards` of the same tensors, and `tuned`, in which one differs."""
    files = {
        "whole": {"model.safetensors": WHOLE},
        "shards": {"1": file_of({"b\x1b]0;x\x07": B}), "2": file_of({"a": A})},
        "tuned": {"model.safetensors": file_of({"a": B, "b\x1b]0;x\x07": B})},
    }
    for name, contents in files.items():
        directory = tmp_path / "models" / name
        directory.mkdir(parents=True)
        for path, data in contents.items():
            (directory / path).write_bytes(data)
        assert dis("store", "add", directory, "--name", name).code == 0


@pytest.mark.usefixtures("models")
def test_the_same_weights_are_0_and_strictly_only_the_same_files(dis: Dis) -> None:
    same = dis("diff", "whole", "shards")
    assert (same.code, "Weights: THE SAME" in same.out) == (0, True)
    strict = dis("diff", "whole", "shards", "--strict")
    assert (strict.code, strict.err) == (
        1,
        "the weights are the same; the files differ, which --strict does not allow\n",
    )
    assert dis("diff", "whole", "whole", "--strict").code == 0
    document = dis("diff", "whole", "shards", "--json").document
    assert (document["same"], document["arrangement"]) == (True, ["shards"])
    assert document["a"]["weights"] == document["b"]["weights"]


@pytest.mark.usefixtures("models")
def test_other_weights_are_1_and_their_names_do_nothing_to_a_terminal(dis: Dis) -> None:
    outcome = dis("diff", "shards", "tuned")
    assert outcome.code == 1
    assert "1 of 2 elements, largest difference 0.5, " in outcome.out
    assert "\x1b" not in dis("diff", "shards", "tuned", "--json").out
    gone = dis("diff", "tuned", "whole", "--json").document["changed"]
    assert [each["name"] for each in gone] == ["a"]


@pytest.mark.usefixtures("models")
def test_paths_into_the_store_name_files_and_directories(dis: Dis) -> None:
    whole, shards = (
        dis("path-info", name, "--json").document[0]["path"] for name in ("whole", "shards")
    )
    outcome = dis("diff", f"{whole}/model.safetensors", f"{shards}/2", "--json")
    assert outcome.code == 1
    assert [each["name"] for each in outcome.document["removed"]] == ["b\x1b]0;x\x07"]
    assert outcome.document["b"]["path"] == "2"


@pytest.mark.usefixtures("models")
def test_what_is_neither_a_run_nor_weights_is_refused(dis: Dis, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(WHOLE[:-1])
    assert dis("store", "add", tmp_path / "model.safetensors", "--name", "broken").code == 0
    refused = dis("diff", "whole", "broken")
    refused.check_one_block()
    assert (refused.code, "broken is neither a run nor weights" in refused.err) == (2, True)
    mixed = dis("diff", "whole", "first")
    mixed.check_one_block()
    assert (mixed.code, "not the bundle of a run" in mixed.err) == (2, True)
    assert dis("diff", "whole", "shards").code == 0


@pytest.mark.usefixtures("models")
def test_the_digest_of_weights_is_told_of_objects_and_runs(dis: Dis) -> None:
    digest = tensor_set_digest(scanned(WHOLE))
    found = dis("path-info", "whole", "shards", "--json").document
    assert [each["weights"] for each in found] == [digest, digest]
    weights = dis("show", "first", "--json").document["weights"]
    assert len(weights) == 64
    assert dis("show", "second", "--json").document["weights"] == weights


@pytest.mark.usefixtures("models")
def test_stats_say_how_much_tensors_could_share(dis: Dis) -> None:
    before = dis("store", "stats", "--json").document["tensors"]
    assert before["unscanned_objects"] == 0
    assert before["tensors"] - before["distinct"] >= 4
    assert before["repeated_bytes"] >= 32
    text = dis("store", "stats")
    assert f"tensors                  {before['tensors']}\n" in text.out
    assert "not searched" not in text.out
