"""`--no-verify-artifact-digests` at the command: loud before, after, and wherever the run is shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Dis
from tiny_runs import write_manifest

FLAG = "--no-verify-artifact-digests"
NOT_VERIFIED = "DIGESTS NOT VERIFIED"


@pytest.fixture
def config(tmp_path: Path, dis: Dis) -> Path:
    """Return a locked manifest whose run is realised as `honest`."""
    path = write_manifest(tmp_path / "tiny")
    assert dis("realize", path, "--name", "honest", "-q").code == 0
    return path


@pytest.fixture
def changed(config: Path) -> Path:
    """Return that manifest when a byte of its weights has changed since."""
    weights = config.parent / "model" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    return config


def test_the_warning_comes_before_and_after(dis: Dis, changed: Path) -> None:
    outcome = dis("run", changed, FLAG)
    assert outcome.code == 0
    lines = outcome.err.splitlines()
    assert lines[0] == f"warning: the digests of the lock are not verified ({FLAG})"
    last = max(number for number, line in enumerate(lines) if line.startswith("warning: "))
    assert lines[last].startswith("warning: this run was not held to the digests of its lock")
    assert lines[last + 1] == "  1 of 5 files differs from the lock: model.weight model.safetensors"
    assert [line.split()[0] for line in lines[last + 2 : last + 5]] == [
        "model.weight", "lock", "used",
    ]  # fmt: skip
    assert lines[-1].startswith("  it is kept as tiny-unverified.")
    assert (Path(outcome.out.strip()) / "bundle.json").is_file()


@pytest.mark.parametrize("command", ["run", "realize"])
def test_the_warning_is_not_silenced(dis: Dis, config: Path, command: str) -> None:
    outcome = dis(command, config, FLAG, "--quiet")
    assert outcome.code == 0
    assert outcome.err.count("warning: ") == 2
    assert "all 5 files happened to be those of the lock" in outcome.err
    assert "warning: " not in dis(command, config).err


def test_programs_get_the_warning_as_events(dis: Dis, config: Path) -> None:
    outcome = dis("realize", config, FLAG, "--progress", "json")
    events = [json.loads(line) for line in outcome.err.splitlines()]
    said = [event["text"] for event in events if event["text"].startswith("warning: ")]
    assert len(said) == 2
    assert {event["event"] for event in events if event["text"] in said} == {"note"}


def test_the_warning_is_coloured_where_colour_is_wanted(dis: Dis, config: Path) -> None:
    outcome = dis("realize", config, FLAG, "--color", "always")
    assert outcome.err.startswith("\x1b[1;33mwarning:\x1b[0m the digests")


def test_the_documents_of_the_commands_say_it(dis: Dis, config: Path) -> None:
    for command in ("run", "realize"):
        answer = dis(command, config, FLAG, "--json").document
        assert answer["artifact_digests_verified"] is False
        assert dis(command, config, "--json").document["artifact_digests_verified"] is True


def test_both_runs_have_directories_of_their_own(dis: Dis, config: Path) -> None:
    one, other = dis("run", config).out.strip(), dis("run", config, FLAG).out.strip()
    assert one != other
    log = json.loads((Path(other) / "run_log.json").read_bytes())
    assert log["artifact_digests"] == {"verified": False}


def test_what_shows_runs_shows_it(dis: Dis, config: Path) -> None:
    dis("realize", config, FLAG, "--name", "loose")
    runs = {run["name"]: run for run in dis("list", "--json").document}
    assert (runs["loose"]["artifact_digests_verified"], runs["loose"]["grade"]) == (
        False,
        "non_conformant_software",
    )
    assert runs["honest"]["artifact_digests_verified"] is True
    rows = dis("list").out.splitlines()
    assert [NOT_VERIFIED in row for row in rows] == ["loose" in row for row in rows]
    assert dis("show", "loose").out.startswith("WARNING: this run was not held to the digests")
    assert "WARNING" not in dis("show", "honest").out
    assert dis("show", "loose", "--json").document["artifact_digests_verified"] is False
    inspected = dis("inspect", "loose", "--json").document
    assert inspected["artifact_digests"]["verified"] is False
    assert len(inspected["artifact_digests"]["files"]) == 5
    assert dis("inspect", "honest", "--json").document["artifact_digests"] == {"verified": True}
    assert '"verified":false' in dis("log", "loose", "--run-log").out.replace(" ", "")


def verify(dis: Dis, *refs: str) -> tuple[int, dict[str, Any], str]:
    outcome = dis("verify", *refs, "--output-dir", "report", "--json")
    return outcome.code, outcome.document, Path("report/verify_summary.txt").read_text("utf-8")


def test_equal_bytes_are_not_conformant_either(dis: Dis, config: Path) -> None:
    dis("realize", config, FLAG, "--name", "loose")
    code, report, summary = verify(dis, "honest", "loose")
    assert (code, report["grade"]) == (1, "non_conformant_software")
    assert report["outputs_identical"] is True
    assert report["causes"] == []
    assert [report[side]["artifact_digests_verified"] for side in ("bundle_a", "bundle_b")] == [
        True,
        False,
    ]
    reason = "a run whose digests were not verified is never conformant"
    assert any(note.startswith(reason) for note in report["notes"])
    assert NOT_VERIFIED in summary
    assert reason in summary
    # Nor against itself.
    assert verify(dis, "loose", "loose")[1]["grade"] == "non_conformant_software"
    assert verify(dis, "honest", "honest")[1]["grade"] == "conformant"


def test_a_diff_says_what_was_used(dis: Dis, changed: Path) -> None:
    dis("realize", changed, FLAG, "--name", "loose")
    record = dis("inspect", "loose", "--json").document["artifact_digests"]["files"]
    (weights,) = (file for file in record if file["name"] == "model.weight")
    report = dis("diff", "honest", "loose", "--json").document
    (change,) = (
        change
        for cause in report["causes"]
        if cause["kind"] == "weights"
        for change in cause["changes"]
        if change["where"] == "file"
    )
    assert (change["old"], change["new"]) == (weights["declared"], weights["used"])
    note = "B: the digests of the lock were not verified; 1 of 5 files differs from the lock"
    assert any(said.startswith(note) for said in report["notes"])
    assert NOT_VERIFIED in dis("diff", "honest", "loose").out
    _, graded, _ = verify(dis, "honest", "loose")
    assert graded["grade"] == "non_conformant_software"


def test_an_archive_keeps_it(dis: Dis, config: Path) -> None:
    dis("realize", config, FLAG, "--name", "loose")
    assert dis("bundle", "loose", "--output", "loose.tar.gz").code == 0
    assert (
        dis("inspect", "loose.tar.gz", "--json").document["artifact_digests"]["verified"] is False
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dry-run"], "is not known beforehand"),
        (["--set", "metadata.name=other", "--set", "inference.dataset.source=no.txt"], "stale"),
    ],
)
def test_what_cannot_be_done_is_refused_and_works_without(
    dis: Dis, config: Path, arguments: list[str], said: str
) -> None:
    outcome = dis("realize", config, FLAG, *arguments)
    assert outcome.code == 2
    assert said in outcome.err
    outcome.check_one_block()
    assert dis("realize", config, FLAG).code == 0


def test_a_target_that_is_no_run_is_refused(dis: Dis, config: Path) -> None:
    outcome = dis("realize", f"{config}#closure", FLAG)
    assert outcome.code == 2
    assert "hint: leave out #closure, or --no-verify-artifact-digests" in outcome.err


def test_a_manifest_without_a_lock_is_refused(dis: Dis, tmp_path: Path) -> None:
    config = write_manifest(tmp_path / "unlocked")
    outcome = dis("run", config, FLAG)
    assert outcome.code == 2
    assert f"hint: dis lock {config}" in outcome.err
    assert not config.with_name("tiny.lock.json").exists()
