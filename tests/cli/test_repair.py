"""`dis store verify --repair`: from copies, by building again, or out of service."""

import json
from pathlib import Path

import pytest

from command_line import Dis, Realised

DIGITS = 64


def of_run(own_store: Realised, part: str, name: str) -> Path:
    """Return a file of the bundle of the first run, of its results, or of one of its inputs."""
    bundle = own_store.path_of("first")
    document = json.loads((bundle / "bundle.json").read_bytes())
    objects: dict[str, str] = {
        **document["inputs"],
        "results": document["results"],
        "bundle": bundle.name,
    }
    return own_store.store / "objects" / objects[part][:2] / objects[part] / name


def spoil(store: Path, file: Path) -> str:
    """Change the first byte of a file of an object, and lose what the store shares; return the object."""
    for link in (store / "links").glob("*/*"):
        link.unlink()
    file.chmod(0o644)
    with file.open("r+b") as opened:
        opened.write(b"!")
    file.chmod(0o444)
    return next(part for part in reversed(file.parts) if len(part) == DIGITS)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("requests", "requests.json"),
        ("closure", "closure.json"),
        ("results", "tokens.json"),
        ("bundle", "bundle.json"),
    ],
)
def test_what_was_built_is_built_again(dis: Dis, own_store: Realised, part: str, name: str) -> None:
    before = dis("path-info", "-r", "first").out
    digest = spoil(own_store.store, of_run(own_store, part, name))
    outcome = dis("store", "verify", "--all", "--repair", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.document["ok"] is False
    assert outcome.document["repair"]["rebuilt"] == [digest]
    assert dis("store", "verify", "--all").code == 0
    assert dis("path-info", "-r", "first").out == before


def test_a_file_from_outside_is_taken_from_where_the_user_says(
    dis: Dis, own_store: Realised, tmp_path: Path
) -> None:
    weights = of_run(own_store, "weights", "model.safetensors")
    donor = tmp_path / "backup"
    donor.mkdir()
    (donor / "any-name").write_bytes(weights.read_bytes())
    digest = spoil(own_store.store, weights)
    outcome = dis("store", "verify", "--all", "--repair", "--from", donor)
    assert outcome.code == 0, outcome.err
    assert f"repaired: {digest}" in outcome.out
    assert dis("store", "verify", "--all").code == 0


def test_what_cannot_be_made_whole_is_told_and_comes_back_with_realize(
    dis: Dis, own_store: Realised
) -> None:
    digest = spoil(own_store.store, of_run(own_store, "weights", "model.safetensors"))
    outcome = dis("store", "verify", "--all", "--repair")
    assert outcome.code == 4
    assert f"lost: {digest} (there is no good copy of 'model.safetensors'" in outcome.out
    assert "hint: " in outcome.err
    assert "Traceback" not in outcome.err
    problems = dis("store", "verify", "--all", "--json").document["problems"]
    assert {problem["kind"] for problem in problems} == {"incomplete"}
    assert dis("realize", own_store.config, "--name", "first").code == 0
    assert dis("store", "verify", "--all").code == 0
    assert list((own_store.store / "quarantine").iterdir())


def test_what_was_lost_is_whole_again_with_a_copy_that_is_found_later(
    dis: Dis, own_store: Realised, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_bytes(b"my only copy")
    assert dis("store", "add", tmp_path / "mine", "--name", "mine").code == 0
    (stored,) = own_store.store.glob("objects/*/*/mine")
    spoil(own_store.store, stored)
    assert "dis store verify --all --repair" in dis("store", "verify", "mine").err
    lost = dis("store", "verify", "mine", "--repair")
    assert lost.code == 4
    assert "--from PATH" in lost.err
    told = dis("store", "verify", "--all")
    assert told.code == 4
    assert "dis store add PATH" in told.err
    repaired = dis("store", "verify", "--all", "--repair", "--from", tmp_path / "mine")
    assert repaired.code == 0, repaired.out
    assert "1 thing made whole" in repaired.out
    assert dis("store", "verify", "--all").code == 0
    assert dis("cat", "mine", "mine").out == "my only copy"


def test_repairing_a_store_that_is_whole_changes_nothing(dis: Dis, own_store: Realised) -> None:
    outcome = dis("store", "verify", "--all", "--repair", "--json")
    assert (outcome.code, "repair" in outcome.document) == (0, False)
    assert not list((own_store.store / "quarantine").iterdir())


def test_a_place_for_copies_is_for_a_repair_only(dis: Dis, tmp_path: Path) -> None:
    outcome = dis("store", "verify", "--all", "--from", tmp_path)
    outcome.check_one_block()
    assert outcome.code == 2


def test_an_incremental_verification_goes_on_where_it_stopped(
    dis: Dis, own_store: Realised
) -> None:
    count = dis("store", "verify", "--all", "--json").document["objects"]
    first = dis("store", "verify", "--incremental", "--max-bytes", "1", "--json").document
    assert (first["round"], first["objects"], first["left"]) == (1, 1, count - 1)
    second = dis("store", "verify", "--incremental", "--max-bytes", "1G", "--json").document
    assert (second["round"], second["objects"], second["left"]) == (1, count - 1, 0)
    assert dis("store", "verify", "--incremental", "--rate", "1T", "--json").document["round"] == 2
    digest = spoil(own_store.store, of_run(own_store, "requests", "requests.json"))
    for _ in range(2):
        outcome = dis("store", "verify", "--incremental", "--json")
        assert outcome.code == 4
        assert [problem["subject"] for problem in outcome.document["problems"]] == [digest]
    assert dis("store", "verify", "--incremental", "--repair").code == 0
    assert dis("store", "verify", "--incremental").code == 0


@pytest.mark.parametrize(
    "argv",
    [
        ("--incremental", "--all"),
        ("--incremental", "first"),
        ("--all", "--max-bytes", "1G"),
        ("--incremental", "--rate", "0"),
        ("--incremental", "--rate", "fast"),
    ],
)
def test_what_fits_no_incremental_verification_is_refused(
    dis: Dis, own_store: Realised, argv: tuple[str, ...]
) -> None:
    del own_store
    outcome = dis("store", "verify", *argv)
    outcome.check_one_block()
    assert outcome.code == 2
