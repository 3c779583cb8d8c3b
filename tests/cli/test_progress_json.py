"""Progress for programs: the events, one JSON document a line."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from command_line import ROOT, SHORTER, Dis
from dis_command import stopping
from dis_command.main import _announce_as_event
from dis_command.progress.json_lines import JsonProgress
from dis_command.session import Session
from dis_derivations.realisation.events import Event, Measure

_FIELDS = ["schema_version", "time", "event", "subject", "text", "seconds", "measures"]
_PAGE = (ROOT / "docs/reference/events.md").read_text("utf-8")


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_an_event_is_one_line_with_the_same_fields_always() -> None:
    stream = StringIO()
    with JsonProgress(stream, time=lambda: "2026-11-29T12:00:00.000Z") as progress:
        progress(Event("start", "weights"))
        progress(Event("progress", "weights", "reading", measures=(Measure("bytes", 1, 2),)))
        progress(Event("done", "weights", seconds=0.12345))
    start, measured, done = documents(stream.getvalue())
    assert list(start) == list(measured) == list(done) == _FIELDS
    assert start["schema_version"] == 1
    assert start["time"] == "2026-11-29T12:00:00.000Z"
    assert measured["measures"] == [{"unit": "bytes", "done": 1, "total": 2}]
    assert (start["seconds"], done["seconds"]) == (None, 0.123)


def test_no_text_leaves_its_line() -> None:
    stream = StringIO()
    with JsonProgress(stream) as progress:
        progress(Event("note", "a\nb\u2028", "\x1b[2J\udcff"))
    assert stream.getvalue().isascii()
    assert documents(stream.getvalue())[0]["text"] == "\x1b[2J\udcff"


def test_a_stop_is_an_event_and_no_line_of_text(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "events").open("w+", encoding="utf-8") as stream:
        with JsonProgress(stream) as progress:
            progress(Event("start", "weights"))
            stopping.announce()
        stream.seek(0)
        assert [each["event"] for each in documents(stream.read())] == ["start", "stopping"]
    assert not capfd.readouterr().err


@pytest.fixture
def events(dis: Dis) -> list[dict[str, Any]]:
    """The events of a whole realisation."""
    limits = ["--set", "inference.n_prompts=2", "--set", SHORTER]
    outcome = dis("realize", ROOT / "configs/quickstart.json", *limits, "--progress", "json")
    assert outcome.code == 0
    assert Path(outcome.out.strip()).is_dir()
    return documents(outcome.err)


def test_a_realisation_plans_begins_and_ends_every_build(events: list[dict[str, Any]]) -> None:
    [plan] = [each for each in events if each["event"] == "plan"]
    started = [each["subject"] for each in events if each["event"] == "start"]
    ended = [each["subject"] for each in events if each["event"] in {"done", "cached"}]
    assert plan["measures"] == [{"unit": "builds", "done": 0, "total": 9}]
    assert len(set(started)) == 9
    assert set(started) <= set(ended)


def test_bytes_requests_and_tokens_are_counted_to_the_end(events: list[dict[str, Any]]) -> None:
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        for measure in event["measures"]:
            last[event["text"], measure["unit"]] = measure
    assert last["verifying the model", "bytes"]["done"] > 1 << 20
    for text in ("reading", "verifying the model"):
        measure = last[text, "bytes"]
        assert measure["done"] == measure["total"]
    assert last["generating", "requests"] == {"unit": "requests", "done": 2, "total": 2}
    assert last["generating", "tokens"] == {"unit": "tokens", "done": 8, "total": None}


def test_what_the_command_says_by_itself_is_an_event_too(dis: Dis, quickstart: Path) -> None:
    outcome = dis("--progress", "json", "lock", quickstart, "--output", "other.lock.json")
    *_, note = documents(outcome.err)
    assert (note["event"], note["subject"]) == ("note", "dis")
    assert "other.lock.json" in note["text"]


def test_the_page_names_every_event_and_every_field() -> None:
    from typing import get_args

    from dis_derivations.realisation.events import EventKind

    for word in (*get_args(EventKind), "stopping", *_FIELDS):
        assert f"`{word}`" in _PAGE


def test_a_stop_is_an_event_also_before_there_is_progress(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert _announce_as_event(Session(environment={"DIS_PROGRESS": "json"}))
    (event,) = documents(capfd.readouterr().err)
    assert (event["event"], event["text"]) == ("stopping", stopping.MESSAGE)
    assert not _announce_as_event(Session(environment={"DIS_PROGRESS": "plain"}))
    assert not _announce_as_event(Session(environment={"DIS_PROGRESS": "loud"}))
    assert capfd.readouterr().err == ""
