"""Asking a server: what it answers honestly, and what happens where it does not."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from checkpoints import CheckpointShape, write_checkpoint
from dis_derivations.engines.openai_compatible.asking import Server
from dis_derivations.engines.openai_compatible.engine import ServerEngine, open_server
from dis_derivations.engines.openai_compatible.identity import read_server
from dis_derivations.engines.openai_compatible.place import Place, server_place
from dis_derivations.engines.protocol import Batching, GeneratedSequence, Request
from dis_derivations.transport.conduct import Conduct
from dis_store.errors import BuildError, InterruptedBuildError, UnsupportedError
from engine_runs import RecordingSink, greedy_request, sampled_request
from scripted_server import (
    FINGERPRINT,
    Change,
    ScriptedServer,
    choice,
    die,
    doing,
    hang,
    never_end,
    scripted_server,
    speak_otherwise,
    status,
    tokens_for,
)

SPEC = {"settings": {"max_model_len": 256}}
FAST = Conduct(connect_seconds=2, silence_seconds=1, first_delay=0.01, longest_delay=0.02)
KEY = "sesame-open"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return write_checkpoint(tmp_path_factory.mktemp("model"), CheckpointShape())


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


def asking(
    scripted: ScriptedServer,
    *,
    key: str | None = None,
    patience: float = 20,
    check: Callable[[], None] = lambda: None,
) -> Server:
    place = server_place(scripted.url, {})
    return Server(Place(place.root, key), patience, check, FAST)


def opened(scripted: ScriptedServer, files: Mapping[str, Path], **options: Any) -> ServerEngine:
    server = asking(scripted, **options)
    return open_server(SPEC, files, read_server(server, "tiny"), server)


def generate(
    engine: ServerEngine, requests: Sequence[Request], *, logits: bool = False
) -> tuple[list[GeneratedSequence], RecordingSink]:
    sink = RecordingSink(("decode",) if logits else ())
    return engine.generate(requests, Batching(2), sink, lambda _: None), sink


ONE = [greedy_request("r0", [1, 2, 3], max_tokens=5)]


def test_tokens_are_those_of_the_server_and_everything_is_said_to_it(
    scripted: ScriptedServer, files: Mapping[str, Path]
) -> None:
    requests = [
        greedy_request("a", [1, 2, 3], max_tokens=5, token_ids=[7]),
        sampled_request("b", [9, 9], temperature=0.7, top_p=0.9, top_k=-1, seed=11, max_tokens=3),
    ]
    engine = opened(scripted, files)
    found, sink = generate(engine, requests)
    first, second = scripted.bodies
    assert [list(each.output_token_ids) for each in found] == [
        tokens_for(first),
        tokens_for(second),
    ]
    assert (first["prompt"], first["return_token_ids"], first["ignore_eos"]) == (
        [1, 2, 3],
        True,
        True,
    )
    assert first["stop_token_ids"] == [7, 256]
    assert "seed" not in first
    assert (second["seed"], second["temperature"], second["top_p"], second["top_k"]) == (
        11, 0.7, 0.9, 0,
    )  # fmt: skip
    # What a server may else adopt from a checkpoint.
    assert {first[name] for name in ("min_p", "presence_penalty", "frequency_penalty")} == {0}
    assert first["repetition_penalty"] == 1
    assert engine.identity()["fingerprint"] == FINGERPRINT
    assert engine.environment()["chosen_log_probabilities"]["a"] == [
        -0.5 - place / 8 for place in range(5)
    ]
    assert sink.steps == []  # nobody knows its batches


def test_logits_are_captured_where_the_server_says_that_it_tells_them(
    scripted: ScriptedServer, files: Mapping[str, Path]
) -> None:
    [found], sink = generate(opened(scripted, files), ONE, logits=True)
    rows = sink.rows(0, "decode")
    assert rows.shape == (5, 300)
    assert tuple(rows.argmax(axis=1)) == found.output_token_ids
    assert rows[0, 299] == 299 / 64


@pytest.mark.parametrize(
    "change",
    [{"logprobs_mode": "raw_logprobs"}, {"logprobs_mode": None}, {"max_logprobs": 20}],
    ids=str,
)
def test_logits_are_refused_where_it_does_not(
    scripted: ScriptedServer, files: Mapping[str, Path], change: dict[str, Any]
) -> None:
    assert scripted.info is not None
    scripted.info["vllm_config"]["model_config"] |= change
    with pytest.raises(UnsupportedError, match="tells its logits"):
        generate(opened(scripted, files), ONE, logits=True)
    assert scripted.bodies == []


def _logits(change: Callable[[dict[str, float]], None]) -> Change:
    def changed(answer: dict[str, Any]) -> dict[str, Any]:
        change(answer["choices"][0]["logprobs"]["top_logprobs"][0])
        return answer

    return changed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_logits(lambda table: table.clear()), "not of the 300 tokens"),
        (
            _logits(lambda table: table.update({"token_id:0": -9999.0})),
            "in the place of what is lower",
        ),
    ],
)
def test_logits_that_are_not_all_are_refused(
    scripted: ScriptedServer, files: Mapping[str, Path], change: Change, said: str
) -> None:
    scripted.changes.append(change)
    with pytest.raises(BuildError) as caught:
        generate(opened(scripted, files), ONE, logits=True)
    assert said in (caught.value.cause or "")


def edited(**members: Any) -> Change:
    return lambda answer: {**answer, **members}


BAD: dict[str, tuple[Change, str]] = {
    "text only": (choice(token_ids=None), "no token ids, which dis does not guess"),
    "no prompt": (choice(prompt_token_ids=None), "no token ids of the prompt"),
    "another prompt": (choice(prompt_token_ids=[1, 2, 4]), "to another prompt"),
    "a token that the model lacks": (choice(token_ids=[300]), "the model knows 0 to 299"),
    "a token that is text": (choice(token_ids=["7"]), "'7' among the tokens"),
    "a token that is true": (choice(token_ids=[True]), "True among the tokens"),
    "too many tokens": (choice(token_ids=[1] * 6), "6 tokens, of 1 to 5"),
    "no token": (choice(token_ids=[]), "0 tokens"),
    "other values": (choice(token_ids=[1, 1, 1, 1, 1]), "of other tokens than its token ids"),
    "no values": (choice(logprobs=None), "`logprobs` is no object"),
    "an unknown end": (choice(finish_reason="abort"), "ended with 'abort'"),
    "an end where nothing ends it": (choice(finish_reason="stop"), "where nothing ends it"),
    "another model": (edited(model="huge"), "of the model 'huge'"),
    "two choices": (edited(choices=[{}, {}]), "not one choice"),
    "no object": (lambda _: doing(lambda handler: handler.send(200, b"[]"))({}), "no object"),
    "other counts": (
        edited(usage={"prompt_tokens": 3, "completion_tokens": 9}),
        "counts other tokens",
    ),
    "cached positions": (
        edited(
            usage={
                "prompt_tokens": 3,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 2},
            }
        ),
        "2 positions were taken from earlier requests",
    ),
    "a fingerprint that is a list": (edited(system_fingerprint=[1]), "fingerprint is no text"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_answer_that_leaves_something_to_be_guessed_is_refused(
    scripted: ScriptedServer, files: Mapping[str, Path], case: str
) -> None:
    change, said = BAD[case]
    scripted.changes.append(change)
    engine = opened(scripted, files)
    with pytest.raises(BuildError) as caught:
        generate(engine, ONE)
    assert said in (caught.value.cause or "")
    assert len(scripted.bodies) == 1
    # The same engine goes on as soon as the server is honest.
    assert len(generate(engine, ONE)[0]) == 1


def test_a_server_that_goes_on_after_a_stop_text_is_not_believed(
    scripted: ScriptedServer, files: Mapping[str, Path]
) -> None:
    request = greedy_request("r0", [97], max_tokens=5, strings=["a"])
    with pytest.raises(BuildError) as caught:
        generate(opened(scripted, files), [request])
    assert "goes on for 4 tokens after its end" in (caught.value.cause or "")


def test_another_fingerprint_in_the_middle_is_another_server(
    scripted: ScriptedServer, files: Mapping[str, Path]
) -> None:
    scripted.changes.extend([lambda answer: answer, edited(system_fingerprint="vllm-other")])
    with pytest.raises(BuildError) as caught:
        generate(opened(scripted, files), [*ONE, *ONE])
    assert "another server answers" in (caught.value.cause or "")


ONCE: dict[str, tuple[Change, str]] = {
    "it dies in the middle of an answer": (doing(die), "broke"),
    "its JSON ends too early": (
        lambda _: lambda handler: handler.send(200, b'{"choices": ['),
        "line 1",
    ),
    "a key comes twice": (lambda _: lambda handler: handler.send(200, b'{"a":1,"a":1}'), "line 1"),
    "it is no HTTP": (doing(speak_otherwise), "not HTTP"),
    "status 500": (status(500, "out of cheese"), "status 500: out of cheese"),
    "status 502 of something between": (status(502), "status 502"),
    "status 504 of something between": (status(504), "status 504"),
    "status 400": (status(400, "bad \x1b[31mred"), "status 400: bad  [31mred"),
    "status 401": (status(401), "does not let in"),
    "a redirect": (status(307, Location="http://127.0.0.1:1/"), "leads to another address"),
    "it is encoded": (status(200, Content_Encoding="gzip"), "encoded"),
    "it has no end": (doing(never_end), "sends more than"),
}


@pytest.mark.parametrize("case", ONCE)
def test_what_may_have_been_received_is_not_sent_again(
    scripted: ScriptedServer, files: Mapping[str, Path], case: str
) -> None:
    change, said = ONCE[case]
    scripted.changes.append(change)
    with pytest.raises(BuildError) as caught:
        generate(opened(scripted, files), ONE)
    assert said in f"{caught.value.what} {caught.value.cause}"
    assert len(scripted.bodies) == 1


def test_a_server_that_hangs_is_given_up_and_not_asked_again(
    scripted: ScriptedServer, files: Mapping[str, Path]
) -> None:
    scripted.changes.append(hang(3))
    with pytest.raises(BuildError) as caught:
        generate(opened(scripted, files, patience=0.4), ONE)
    assert "request r0 has no answer" in caught.value.what
    assert "fell silent" in (caught.value.cause or "")
    assert len(scripted.bodies) == 1


def test_who_waits_for_a_server_can_interrupt(
    scripted: ScriptedServer, files: Mapping[str, Path]
) -> None:
    def check() -> None:
        if scripted.bodies:
            raise InterruptedBuildError("enough")

    scripted.changes.append(hang(3))
    with pytest.raises(InterruptedBuildError):
        generate(opened(scripted, files, check=check), ONE)


@pytest.mark.parametrize("code", [429, 503])
def test_a_request_that_was_turned_away_is_sent_again(
    scripted: ScriptedServer, files: Mapping[str, Path], code: int
) -> None:
    scripted.changes.extend([status(code), status(code, Retry_After="0")])
    found, _ = generate(opened(scripted, files), ONE)
    assert list(found[0].output_token_ids) == tokens_for(scripted.bodies[0])
    assert len(scripted.bodies) == 3


def test_one_that_is_turned_away_for_ever_is_given_up(
    scripted: ScriptedServer, files: Mapping[str, Path]
) -> None:
    scripted.changes.extend([status(503)] * 50)
    with pytest.raises(BuildError) as caught:
        generate(opened(scripted, files), ONE)
    assert "status 503, again and again" in (caught.value.cause or "")
    assert len(scripted.bodies) == FAST.attempts


def test_without_a_connection_nothing_was_sent_so_it_is_tried_again(
    files: Mapping[str, Path],
) -> None:
    with scripted_server() as scripted:
        engine = opened(scripted, files)
    with pytest.raises(BuildError) as caught:
        generate(engine, ONE)
    assert "cannot be reached" in (caught.value.cause or "")


def test_each_request_has_a_connection_of_its_own_though_the_server_keeps_them(
    scripted: ScriptedServer, files: Mapping[str, Path]
) -> None:
    # One that is kept may be closed while a request is on its way, and then nobody knows whether it came.
    generate(opened(scripted, files), [*ONE, *ONE, *ONE])
    assert scripted.connections == len(scripted.keys) > 3


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503])
def test_what_is_only_read_is_read_again(scripted: ScriptedServer, code: int) -> None:
    scripted.readings["/version"] = _several(status(code), doing(die))
    assert read_server(asking(scripted), "tiny")["version"] == "0.32.0"


def _several(*changes: Change) -> deque[Change]:
    return deque(changes)


@pytest.mark.parametrize(
    "change",
    [
        doing(never_end),
        lambda _: lambda handler: handler.send(200, b"{"),
        status(301, Location="http://127.0.0.1:1/"),
        status(403),
    ],
)
def test_reading_that_makes_no_sense_ends_at_once(scripted: ScriptedServer, change: Change) -> None:
    scripted.readings["/v1/models"] = _several(change)
    with pytest.raises(BuildError):
        read_server(asking(scripted), "tiny")


def test_a_server_that_became_another_one_is_refused(
    scripted: ScriptedServer, files: Mapping[str, Path]
) -> None:
    server = asking(scripted)
    planned = read_server(server, "tiny")
    scripted.version = "0.33.0"
    with pytest.raises(BuildError) as caught:
        open_server(SPEC, files, planned, server)
    assert "something else of its version" in (caught.value.cause or "")


def test_a_key_is_shown_to_the_server_and_is_in_no_message(
    scripted: ScriptedServer, files: Mapping[str, Path]
) -> None:
    scripted.changes.append(status(400, f"your key {KEY} is wrong"))
    engine = opened(scripted, files, key=KEY)
    with pytest.raises(BuildError) as caught:
        generate(engine, ONE)
    assert set(scripted.keys) == {f"Bearer {KEY}"}
    assert KEY not in f"{caught.value.what} {caught.value.cause} {caught.value.hint}"
    assert KEY not in repr(engine.__dict__)
    assert KEY not in json.dumps([engine.identity(), engine.environment()])
