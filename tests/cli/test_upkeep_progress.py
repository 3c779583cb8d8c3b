"""How far commands on the store itself have come, as their events tell it."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import SHORTER, Dis, Realised


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def told(dis: Dis, *argv: str | Path) -> list[dict[str, Any]]:
    """Return the events of a command that ends well, notes apart."""
    outcome = dis("--progress", "json", *argv)
    assert outcome.code == 0, outcome.err
    return [event for event in events(outcome.err) if event["event"] != "note"]


def last_measure(found: list[dict[str, Any]], text: str) -> dict[str, Any]:
    (measure,) = [each for each in found if each["text"] == text][-1]["measures"]
    return dict(measure)


@pytest.fixture
def big(tmp_path: Path) -> Path:
    directory = tmp_path / "big"
    directory.mkdir()
    for name in "abc":
        (directory / name).write_bytes(name.encode() * 1_000_000)
    return directory


def test_adding_tells_the_bytes_that_were_read(dis: Dis, big: Path) -> None:
    for options in ([], ["--adopt"]):
        found = told(dis, "store", "add", big, *options)
        assert [found[0]["event"], found[-1]["event"]] == ["begin", "end"]
        assert last_measure(found, "reading files") == {
            "unit": "bytes", "done": 3_000_000, "total": 3_000_000,
        }  # fmt: skip


def test_export_and_import_tell_the_bytes_of_files(dis: Dis, big: Path, tmp_path: Path) -> None:
    assert dis("store", "add", big, "--name", "big").code == 0
    archive = tmp_path / "big.tar"
    found = told(dis, "store", "export", "big", "--output", archive)
    assert last_measure(found, "writing files")["done"] == 3_000_000
    for options in (["--dry-run"], []):
        found = told(dis, "--store", tmp_path / "other", "store", "import", archive, *options)
        measure = last_measure(found, "reading files")
        assert (measure["done"], measure["total"]) == (3_000_000, 3_000_000)
        assert found[-1]["text"] == "imported"


def test_reindexing_and_optimising_tell_how_far_they_are(dis: Dis, big: Path) -> None:
    assert dis("store", "add", big, "--name", "big").code == 0
    found = told(dis, "store", "reindex")
    assert last_measure(found, "reading files")["done"] == 3_000_000
    assert found[-1]["text"] == "indexed"
    found = told(dis, "store", "optimise")
    assert last_measure(found, "comparing files") == {"unit": "objects", "done": 1, "total": 1}


def test_a_collection_tells_each_of_its_phases(dis: Dis, big: Path) -> None:
    assert dis("store", "add", big).code == 0
    found = told(dis, "gc")
    texts = list(dict.fromkeys(event["text"] for event in found))
    assert texts == [
        "collecting garbage", "deleting rows of the index", "moving garbage to the trash",
        "giving the space back to the disk", "sweeping shared files", "garbage collected",
    ]  # fmt: skip
    assert last_measure(found, "giving the space back to the disk") == {
        "unit": "objects", "done": 1, "total": 1,
    }  # fmt: skip


def test_failed_work_says_so(dis: Dis, big: Path, tmp_path: Path) -> None:
    archive = tmp_path / "broken.tar"
    archive.write_bytes((big / "a").read_bytes())
    outcome = dis("--progress", "json", "store", "import", archive)
    assert outcome.code == 2
    kinds = [event["event"] for event in events(outcome.err)[:-1]]
    assert kinds[-1] == "failed"


def test_quick_work_is_told_of_in_no_log(dis: Dis, big: Path, tmp_path: Path) -> None:
    added = dis("store", "add", big, "--name", "big")
    # How the files came in is a result, and no progress.
    assert [line.split(":")[0] for line in added.err.splitlines()] == ["note"]
    assert dis("store", "export", "big", "--output", tmp_path / "x.tar").err == ""
    assert dis("store", "optimise").err == ""


def test_gc_says_what_each_root_keeps(dis: Dis, own_store: Realised) -> None:
    del own_store
    document = dis("gc", "--dry-run", "--json").document
    by_name = {each["name"]: each for each in document["roots"]}
    assert by_name["first"]["kind"] == "named"
    automatic = [each for each in by_name.values() if each["kind"] == "automatic"]
    assert len(automatic) == 2
    # Each run has a named root beside the automatic one.
    assert {each["only_bytes"] for each in by_name.values()} == {0}
    assert by_name["first"]["shared_bytes"] > 0
    assert by_name["first"]["last_used"].endswith("+00:00")
    text = dis("gc", "--dry-run").out
    assert "ONLY IT KEEPS" in text
    assert dis("root", "remove", "first").code == 0
    assert dis("gc", "--json").document["roots"] == []


def test_gc_stops_when_it_is_enough(dis: Dis, own_store: Realised) -> None:
    assert dis("root", "remove", "second").code == 0
    assert dis("gc").code == 0  # the copy of the store has lost its hard links
    assert dis("gc", "--keep-free", "1").out == "0 objects deleted, 0 B freed\n"
    assert (
        dis("gc", "--keep-last", "0", "--max-freed", "0", "--yes", "--json").document["objects"]
        == []
    )
    outcome = dis("gc", "--keep-free", "900T", "--dry-run")
    assert "less than was asked for" in outcome.err
    document = dis("gc", "--keep-free", "900T", "--yes", "--json").document
    assert (document["reached"], len(document["retired_roots"])) == (False, 2)
    assert document["wanted_bytes"] > document["freed_bytes"] > 0
    assert own_store.path_of("first").is_dir()
    assert not own_store.path_of("second").exists()


@pytest.mark.parametrize("amount", ["many", "-1", "1.5G", "10P", "G", "9" * 30])
def test_an_amount_that_is_none_is_refused(dis: Dis, amount: str) -> None:
    for option in ("--max-freed", "--keep-free"):
        outcome = dis("gc", f"{option}={amount}")
        outcome.check_one_block()
        assert outcome.code == 2
        assert "is no number of bytes; write for example 500M" in outcome.err


def test_realising_again_is_a_use(dis: Dis, own_store: Realised) -> None:
    def stamps() -> dict[str, int]:
        names = [f"quickstart.{own_store.path_of(each).name[:8]}" for each in ("first", "second")]
        return {
            name: (own_store.store / "roots" / f"{name}.json").stat().st_mtime_ns for name in names
        }

    first, second = stamps()
    before = stamps()
    limits = ("--set", "inference.n_prompts=2", "--set", SHORTER)
    assert dis("realize", own_store.config, *limits).out == f"{own_store.path_of('first')}\n"
    assert stamps()[first] > max(before.values())
    assert stamps()[second] == before[second]
    retired = dis("gc", "--keep-last", "1", "--dry-run", "--json").document["retired_roots"]
    assert retired == [second]
