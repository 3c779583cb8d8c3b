import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.tokenization.conversation import Message
from dis_derivations.tokenization.dataset import DatasetPrompt, read_prompts
from dis_store.errors import DisError, InvalidInputError

HELLO = [{"role": "user", "content": "hello"}]
CONVERSATION = DatasetPrompt(conversation=(Message("user", "hello"),))


def refusal(data: bytes, dataset_format: str, count: int = 1) -> str:
    with pytest.raises(InvalidInputError) as caught:
        read_prompts(data, dataset_format=dataset_format, count=count)
    return str(caught.value)


def test_the_first_conversations_come_in_file_order() -> None:
    other = [{"role": "system", "content": ""}, *HELLO]
    data = json.dumps({"conversations": [HELLO, other, "not judged"]}).encode()
    found = read_prompts(data, dataset_format="conversations", count=2)
    assert found[0] == CONVERSATION
    assert found[1].conversation == (Message("system", ""), Message("user", "hello"))


def test_lines_of_json_hold_prompts_or_messages() -> None:
    lines = [json.dumps({"prompt": "a\u2028b"}), "", json.dumps({"messages": HELLO}) + "\r", "!"]
    found = read_prompts("\n".join(lines).encode(), dataset_format="jsonl", count=2)
    assert found == [DatasetPrompt(text="a\u2028b"), CONVERSATION]


def test_text_is_one_prompt_a_line_with_its_spaces() -> None:
    data = " a \u2028\r\n\n \t\nb\x0cc".encode()
    found = read_prompts(data, dataset_format="text", count=2)
    assert found == [DatasetPrompt(text=" a \u2028"), DatasetPrompt(text="b\x0cc")]


@pytest.mark.parametrize("dataset_format", ["jsonl", "text"])
def test_asking_for_more_than_there_is_is_refused(dataset_format: str) -> None:
    with pytest.raises(InvalidInputError, match="has 1 prompts, and 2 are asked for") as caught:
        read_prompts(b'{"prompt": "a"}\n', dataset_format=dataset_format, count=2)
    assert caught.value.hint == "ask for fewer: --set inference.n_prompts=1"


@pytest.mark.parametrize(
    ("dataset_format", "data", "says"),
    [
        ("csv", b"", "format 'csv' is unknown"),
        ("conversations", b"[]", "must be an object"),
        ("conversations", b"{}", "list of conversations"),
        ("conversations", b'{"conversation": []}', "unknown field 'conversation'"),
        ("conversations", b'{"conversations": [[]]}', "conversation 0 of the dataset"),
        ("conversations", b'{"conversations": [[1]]}', "message 0 of conversation 0"),
        ("conversations", b'{"conversations": [[{"role": "", "content": ""}]]}', "role"),
        ("conversations", b'{"conversations": [[{"role": "a", "content": []}]]}', "as text"),
        ("conversations", b'{"conversations": [[{"role": "a", "name": ""}]]}', "field 'name'"),
        ("conversations", b'{"conversations": [], "conversations": []}', "twice"),
        ("jsonl", b'\n{"prompt": 1}', "line 2 of the dataset must have a prompt"),
        ("jsonl", b'{"prompt": ""}', "not empty"),
        ("jsonl", b'{"prompt": "a", "messages": []}', "either 'prompt' or 'messages'"),
        ("jsonl", b'{"x_note": 1}', "either 'prompt' or 'messages'"),
        ("jsonl", b'{"prompt": "a", "id": 1}', "line 1 of the dataset has the unknown field 'id'"),
        ("jsonl", b"{", "line 1 of the dataset is not valid JSON"),
        ("text", b"a\n\xff", "line 2 of the dataset is not UTF-8"),
        ("text", b"\xef\xbb\xbfa", "byte order mark"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(dataset_format: str, data: bytes, says: str) -> None:
    assert says in refusal(data, dataset_format, 2)


@given(st.binary(max_size=80), st.sampled_from(["conversations", "jsonl", "text"]))
def test_any_bytes_are_read_or_refused(data: bytes, dataset_format: str) -> None:
    try:
        found = read_prompts(data, dataset_format=dataset_format, count=1)
    except DisError:
        return
    assert len(found) == 1


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_prompts_survive_lines_of_json(prompts: list[str]) -> None:
    data = "\n".join(json.dumps({"prompt": prompt}) for prompt in prompts).encode()
    found = read_prompts(data, dataset_format="jsonl", count=len(prompts))
    assert [prompt.text for prompt in found] == prompts
