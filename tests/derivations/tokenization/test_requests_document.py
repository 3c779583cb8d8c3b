import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.engines.protocol import Sampling, Stop
from dis_derivations.tokenization.requests_document import build_requests, parse_requests
from dis_store import canonical_json
from dis_store.errors import InvalidInputError
from word_tokenizer import WORDS, token_ids, tokenizer_files

FILES = tokenizer_files()
GREEDY = {"max_tokens": 4}
HELLO = [{"role": "user", "content": "hello world"}]


def build(
    spec: dict[str, Any],
    *,
    dataset: bytes | None = None,
    dataset_format: str | None = None,
    files: dict[str, bytes] | None = None,
    chat_template: bytes | None = None,
    pinned_date: str | None = None,
) -> bytes:
    return build_requests(
        spec,
        dataset=dataset,
        dataset_format=dataset_format,
        tokenizer_files=FILES if files is None else files,
        chat_template=chat_template,
        pinned_date=pinned_date,
    )


def one(request: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    spec = {"requests": [{"id": "r", "sampling": GREEDY, **request}]}
    found: dict[str, Any] = json.loads(build(spec, **keywords))["requests"][0]
    return found


def refusal(spec: dict[str, Any], **keywords: Any) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        build(spec, **keywords)
    return caught.value


def test_a_completion_has_special_tokens_and_is_never_cut_or_padded() -> None:
    found = one({"kind": "completion", "prompt": "hello world again"})
    assert found["prompt_token_ids"] == [1, *token_ids("hello world again")]
    assert found["prompt"] == "hello world again"
    assert found["conversation"] is None


def test_a_chat_is_rendered_and_has_no_special_tokens_but_its_own() -> None:
    found = one({"kind": "chat", "messages": HELLO})
    assert found["prompt"] == "<s> <|user|> hello world <|assistant|>"
    assert found["prompt_token_ids"] == token_ids(found["prompt"])
    assert found["conversation"] == HELLO


def test_a_completion_of_messages_is_their_contents_line_by_line() -> None:
    messages = [*HELLO, {"role": "assistant", "content": "again"}]
    found = one({"kind": "completion", "messages": messages})
    assert found["prompt"] == "hello world\nagain"
    assert found["conversation"] == messages


@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_token_ids_are_taken_as_they_are(kind: str) -> None:
    found = one({"kind": kind, "prompt_token_ids": [5, 5, len(WORDS) - 1]})
    assert found["prompt_token_ids"] == [5, 5, len(WORDS) - 1]
    assert found["prompt"] is found["conversation"] is None


def test_each_request_keeps_its_own_sampling_and_stop() -> None:
    sampling = {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "max_tokens": 3, "seed": 11}
    stop = {"sequences": ["\n\n", "é"], "token_ids": [2, 999]}
    requests = [
        {"kind": "completion", "prompt": "a", "sampling": sampling, "stop": stop, "x_note": 1},
        {"kind": "completion", "prompt": "a", "sampling": GREEDY, "id": "named"},
    ]
    first, second = parse_requests(build({"requests": requests}))
    assert first.id == "request-00000"
    assert first.sampling == Sampling(0.5, 0.9, 7, 3, 11)
    assert first.stop == Stop(("\n\n", "é"), (2, 999))
    assert second.id == "named"
    assert second.sampling == Sampling(0.0, 1.0, -1, 4, None)
    assert second.stop == Stop()


@pytest.mark.parametrize("top_k", [None, 0, -1])
def test_every_way_to_say_no_top_k_makes_the_same_document(top_k: int | None) -> None:
    request = {"kind": "completion", "prompt": "a"}
    with_it = one({**request, "sampling": {**GREEDY, "top_k": top_k}})
    assert with_it == one(request)


def test_the_document_is_canonical() -> None:
    document = build({"requests": [{"kind": "chat", "messages": HELLO, "sampling": GREEDY}]})
    assert document == canonical_json.encode(json.loads(document))


def test_a_dataset_gives_its_first_prompts_to_a_template() -> None:
    spec = {
        "n_prompts": 2,
        "request_template": {"kind": "completion", "sampling": GREEDY, "id_prefix": "p-"},
    }
    found = parse_requests(build(spec, dataset=b"hello\nworld\nagain\n", dataset_format="text"))
    assert [request.id for request in found] == ["p-00000", "p-00001"]
    assert found[1].prompt_token_ids == (1, *token_ids("world"))


def test_conversations_are_the_format_of_a_dataset_unless_said() -> None:
    spec = {"n_prompts": 1, "request_template": {"kind": "chat", "sampling": GREEDY}}
    dataset = json.dumps({"conversations": [HELLO]}).encode()
    assert json.loads(build(spec, dataset=dataset))["requests"][0]["conversation"] == HELLO


def test_a_text_of_a_dataset_is_a_message_of_the_user_in_a_chat() -> None:
    spec = {"n_prompts": 1, "request_template": {"kind": "chat", "sampling": GREEDY}}
    document = json.loads(build(spec, dataset=b"hello world", dataset_format="text"))
    assert document["requests"][0]["conversation"] == HELLO


def test_prompts_without_a_dataset_are_told_how_to_name_one() -> None:
    spec = {"n_prompts": 3, "request_template": {"kind": "chat", "sampling": GREEDY}}
    assert "--set inference.dataset.source=" in str(refusal(spec).hint)


CHAT = {"kind": "chat", "messages": HELLO}


@pytest.mark.parametrize(
    ("given", "files", "expected"),
    [
        (b"mine", tokenizer_files(), "mine"),
        (b"mine", {**tokenizer_files(), "chat_template.jinja": b"its file"}, "mine"),
        (None, {**tokenizer_files(), "chat_template.jinja": b"its file"}, "its file"),
        (None, tokenizer_files("its config"), "its config"),
        (
            None,
            tokenizer_files(
                [{"name": "rag", "template": "x"}, {"name": "default", "template": "y"}]
            ),
            "y",
        ),
    ],
)
def test_the_nearest_chat_template_is_used(
    given: bytes | None, files: dict[str, bytes], expected: str
) -> None:
    assert one(CHAT, chat_template=given, files=files)["prompt"] == expected


@pytest.mark.parametrize("template", [None, [{"name": "rag", "template": "x"}]])
def test_without_a_chat_template_it_is_said_how_to_give_one(template: object) -> None:
    error = refusal({"requests": [{**CHAT, "sampling": GREEDY}]}, files=tokenizer_files(template))
    assert "model.chat_template.file" in str(error.hint)


def test_special_tokens_come_from_the_config_before_the_map() -> None:
    token_map = json.dumps({"bos_token": "map", "unk_token": {"content": "from map"}}).encode()
    files = {
        **tokenizer_files("{{ bos_token }} {{ unk_token }}"),
        "special_tokens_map.json": token_map,
    }
    assert one(CHAT, files=files)["prompt"] == "<s> from map"


def test_a_pinned_date_reaches_the_template() -> None:
    template = b"{{ strftime_now('%Y') }}"
    assert one(CHAT, chat_template=template, pinned_date="1999-01-01")["prompt"] == "1999"


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff", b"null", b'{"model": {"type": "Nope"}}', b"[" * 100_000]
)
def test_a_tokenizer_that_does_not_load_is_an_error(content: bytes) -> None:
    spec = {"requests": [{"kind": "completion", "prompt": "a", "sampling": GREEDY}]}
    error = refusal(spec, files={"tokenizer.json": content})
    assert error.what == "tokenizer.json does not load"
    assert "has no tokenizer.json" in refusal(spec, files={}).what


def request(**fields: Any) -> dict[str, Any]:
    whole = {"kind": "completion", "prompt": "a", "sampling": GREEDY, **fields}
    return {"requests": [{key: value for key, value in whole.items() if value is not ...}]}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({}, "either 'requests' or 'n_prompts'"),
        ({"requests": []}, "at least one request"),
        ({"requests": [1]}, "must be an object"),
        ({**request(), "n_prompts": 1}, "either"),
        ({"request": []}, "unknown field 'request'"),
        (request(promt="a"), "unknown field 'promt'"),
        (request(prompt=""), "not empty"),
        (request(prompt=...), "exactly one of"),
        (request(prompt_token_ids=[1]), "it has prompt, prompt_token_ids"),
        (request(prompt=..., prompt_token_ids=[]), "at least one token id"),
        (request(prompt=..., prompt_token_ids=[-1]), "integers of at least 0"),
        (request(prompt=..., prompt_token_ids=[True]), "integers of at least 0"),
        (request(prompt=..., prompt_token_ids=[len(WORDS)]), f"ids go up to {len(WORDS) - 1}"),
        (request(prompt=..., messages=[]), "at least one message"),
        (request(kind="chat"), "which has messages and no prompt"),
        (request(kind="edit"), "must have a kind: completion or chat"),
        (request(id=""), "must have an id"),
        (request(sampling=...), "must be an object"),
        (request(sampling={}), "max_tokens of at least 1"),
        (request(sampling={**GREEDY, "min_p": 0.1}), "unknown field 'min_p'"),
        (request(sampling={**GREEDY, "temperature": -1}), "temperature of at least 0"),
        (request(sampling={**GREEDY, "temperature": "0"}), "temperature of at least 0"),
        (request(sampling={**GREEDY, "temperature": 2**53}), "below 2^53"),
        (request(sampling={**GREEDY, "top_p": 0}), "top_p above 0"),
        (request(sampling={**GREEDY, "top_k": -2}), "top_k of at least 1"),
        (request(sampling={**GREEDY, "seed": 1.5}), "a seed that is an integer"),
        (request(stop={"sequences": [""]}), "sequences that are texts"),
        (request(stop={"token_ids": ["2"]}), "token ids that are integers"),
        (request(stop={"strings": []}), "unknown field 'strings'"),
        ({"n_prompts": 0, "request_template": {"kind": "chat"}}, "integer of at least 1"),
        ({"n_prompts": 1}, "inference.request_template must be an object"),
        ({"requests": request(id="a")["requests"] * 2}, "two requests have the id 'a'"),
    ],
)
def test_a_wrong_request_is_refused(spec: dict[str, Any], says: str) -> None:
    assert says in str(refusal(spec))


def test_a_completion_without_text_is_refused() -> None:
    spec = {"n_prompts": 1, "request_template": {"kind": "completion", "sampling": GREEDY}}
    dataset = json.dumps({"conversations": [[{"role": "user", "content": ""}]]}).encode()
    assert "is empty" in refusal(spec, dataset=dataset).what


def test_a_prompt_without_tokens_is_refused() -> None:
    error = refusal({"requests": [{**CHAT, "sampling": GREEDY}]}, chat_template=b"  {{ ' ' }}")
    assert error.what == "the prompt of request request-00000 has no tokens"


def test_a_chat_that_renders_to_nothing_is_refused() -> None:
    error = refusal({"requests": [{**CHAT, "sampling": GREEDY}]}, chat_template=b"{# nothing #}")
    assert error.what == "the prompt of request request-00000 is empty"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"format":2,"requests":[]}',
        b'{"format":1}',
        b'{"format":1,"requests":[{"id":1}]}',
        b'{"format":1,"requests":[{"id":"a"}]}',
    ],
)
def test_a_document_of_another_kind_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInputError, match=r"requests\.json"):
        parse_requests(data)


numbers = st.integers(0, 2**53 - 1)
specs = st.fixed_dictionaries(
    {
        "kind": st.just("completion"),
        "prompt_token_ids": st.lists(st.integers(0, len(WORDS) - 1), min_size=1, max_size=4),
        "sampling": st.fixed_dictionaries(
            {"max_tokens": st.integers(1, 2**53 - 1)},
            optional={
                "temperature": st.floats(0, 2**53, exclude_max=True) | st.integers(0, 5),
                "top_p": st.floats(0, 1, exclude_min=True),
                "top_k": st.integers(1, 2**53 - 1),
                "seed": st.integers(-(2**53) + 1, 2**53 - 1),
            },
        ),
    },
    optional={
        "stop": st.fixed_dictionaries(
            {},
            optional={
                "sequences": st.lists(
                    st.text(st.characters(codec="utf-8"), min_size=1), max_size=3
                ),
                "token_ids": st.lists(numbers, max_size=3),
            },
        )
    },
)


@given(st.lists(specs, min_size=1, max_size=3))
def test_what_is_asked_comes_back_from_the_document(asked: list[dict[str, Any]]) -> None:
    found = parse_requests(build({"requests": asked}))
    for one_asked, one_found in zip(asked, found, strict=True):
        assert list(one_found.prompt_token_ids) == one_asked["prompt_token_ids"]
        sampling = {"temperature": 0.0, "top_p": 1.0, "top_k": -1, "seed": None}
        assert vars(one_found.sampling) == sampling | one_asked["sampling"]
        stop = {"sequences": [], "token_ids": []} | one_asked.get("stop", {})
        assert one_found.stop == Stop(tuple(stop["sequences"]), tuple(stop["token_ids"]))
