"""Prompts that are missing, malformed or too long, and chat templates that attack: refused by line and request."""

from collections.abc import Callable
from typing import Any

import pytest

from users import User

DATASETS: dict[str, tuple[str, bytes, str]] = {
    "empty": ("text", b"", "the dataset has 0 prompts, and 2 are asked for"),
    "too short": ("text", b"a\n", "--set inference.n_prompts=1"),
    "of empty lines": ("text", b"\n \n\n", "the dataset has 0 prompts"),
    "not UTF-8": ("text", b"ok\nb\xffd\n", "line 2 of the dataset is not UTF-8"),
    "with a byte order mark": ("text", b"\xef\xbb\xbfa\nb\n", "a byte order mark"),
    "in UTF-16": ("text", "a\nb\n".encode("utf-16"), "is not UTF-8"),
    "too long for the model": ("text", b"a b " * 500 + b"\nb\n", "is too long"),
    "cut off at line 2": ("jsonl", b'{"prompt": "a"}\n{"prompt":\n', "line 2 of the dataset"),
    "of texts": ("jsonl", b'"a"\n"b"\n', "line 1 of the dataset must be an object"),
    "with an unknown field": ("jsonl", b'{"text": "a"}\n', "has the unknown field 'text'"),
    "with a number": ("jsonl", b'{"prompt": 5}\n', "line 1 of the dataset must have a prompt"),
    "with a key twice": ("jsonl", b'{"prompt": "a", "prompt": "b"}\n', "appears twice"),
    "with both kinds": ("jsonl", b'{"prompt": "a", "messages": []}\n', "either 'prompt' or"),
    "with half a character": ("jsonl", b'{"prompt": "\\ud800"}\n', "half of a surrogate pair"),
    "no JSON": ("conversations", b"hello", "the dataset is not valid JSON"),
    "a list": ("conversations", b"[]", "must be an object with conversations"),
    "without conversations": ("conversations", b"{}", "must have a list of conversations"),
    "with an empty conversation": (
        "conversations",
        b'{"conversations": [[]]}',
        "conversation 0 of the dataset must be a list of at least one message",
    ),
    "with a message of parts": (
        "conversations",
        b'{"conversations": [[{"role": "user", "content": []}]]}',
        "message 0 of conversation 0 of the dataset must have its content as text",
    ),
}


@pytest.mark.parametrize("case", DATASETS)
def test_a_dataset_that_cannot_be_read_is_refused_by_line(user: User, case: str) -> None:
    form, data, says = DATASETS[case]
    user.write("prompts.txt", data)
    user.edit({"inference.dataset.format": form, "inference.n_prompts": 2})
    said = user.refused("realize", "tiny.json", says=says)
    assert "line 2 of the dataset is not valid JSON\n  cause: line 1" not in said
    user.recovers()


def test_what_comes_after_the_prompts_that_are_used_is_not_judged(user: User) -> None:
    user.write("prompts.txt", b'{"prompt": "a"}\n\xff{"prompt":\n')
    user.edit({"inference.dataset.format": "jsonl", "inference.n_prompts": 1})
    user.does("realize", "tiny.json")


REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "an empty prompt": ({"prompt": ""}, "a prompt that is a text and not empty"),
    "no token": ({"prompt_token_ids": []}, "prompt_token_ids must not be empty"),
    "a negative token": ({"prompt_token_ids": [-1]}, "must be at least 0, not -1"),
    "too many tokens": (
        {"prompt_token_ids": [1] * 256},
        "it has 256 tokens, and the context of 256",
    ),
    "two prompts": (
        {"prompt": "a", "prompt_token_ids": [1]},
        "it has 'prompt' and 'prompt_token_ids'",
    ),
    "no prompt": ({}, "must have one of"),
    "an empty stop": ({"prompt": "a", "stop": {"sequences": [""]}}, "must not be empty"),
    "no template": ({"kind": "chat", "messages": [{"role": "user", "content": "a"}]}, "template"),
    "no message": ({"kind": "chat", "messages": []}, "messages must not be empty"),
}


def ask(user: User, *requests: dict[str, Any]) -> None:
    """Replace the prompts of the manifest by requests."""
    sampling = {"temperature": 0.0, "max_tokens": 3}
    defaults = {"kind": "completion", "sampling": sampling}
    asked = [{"id": f"r{index}", **defaults, **each} for index, each in enumerate(requests)]
    user.edit({"inference": {"batching": {"policy": "fixed"}, "requests": asked}})


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_that_cannot_be_answered_is_refused(user: User, case: str) -> None:
    request, says = REQUESTS[case]
    ask(user, {"prompt": "a"}, request)
    user.refused("realize", "tiny.json", says=says)
    user.recovers()


def test_two_requests_with_one_name_are_refused(user: User) -> None:
    ask(user, {"id": "a", "prompt": "a"}, {"id": "a", "prompt": "b"})
    user.refused("realize", "tiny.json", says="is 'a', as in request 0")


TEMPLATES: dict[str, tuple[str, str]] = {
    "unfinished": ("{% for m in messages %}", "line 1: TemplateSyntaxError"),
    "with an unknown name": ("{{ nope.x }}", "'nope' is undefined"),
    "that fails": ("{{ 1 / 0 }}", "division by zero"),
    "that refuses": ("{{ raise_exception('no \x1b[2J roles') }}", "no \\x1b[2J roles"),
    "that makes nothing": ("", "the prompt of request request-00000 is empty"),
    "that makes half a character": ("{{ '\\ud800' }}", "half of a surrogate pair"),
    "that asks for today": ("{{ strftime_now('%Y') }}", "--set inference.pinned_date="),
    "that reads a file": ("{% include '/etc/passwd' %}", "no loader"),
    "that imports": ("{% import 'os' as os %}", "no loader"),
    "that climbs to classes": (
        "{{ ''.__class__.__mro__ }}",
        "'__class__' of 'str' object is unsafe",
    ),
    "that climbs to modules": (
        "{{ cycler.__init__.__globals__.os.system('touch pwned') }}",
        "is unsafe",
    ),
    "that climbs by a filter": ("{{ messages|attr('__class__')|attr('__mro__') }}", "is empty"),
    "that climbs by a format": ("{{ '{0.__class__}'.format(messages).x.y }}", "template"),
    "that changes its input": ("{{ messages.append(1) }}", "'append' of 'list' object is unsafe"),
    "that never ends": (
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
            "{% endfor %}{% endfor %}{% endfor %}"
        ),
        "does not come to an end",
    ),
    "that calls itself": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "calls itself"),
    "that doubles a text": (
        (
            "{% set n = namespace(a='aaaaaaaa') %}{% for i in range(60) %}{% set n.a = n.a + n.a %}"
            "{% endfor %}{{ n.a|length }}"
        ),
        "the chat template",
    ),
    "that repeats": ("{{ 'a' * 10 ** 10 }}", "makes something too large"),
    "that pads": ("{{ '%0999999999d' % 5 }}", "makes something too large"),
    "that centres": ("{{ 'a'.center(9999999999) }}", "makes something too large"),
    "that indents": ("{{ messages|tojson(indent=999999999) }}", "makes something too large"),
    "that is deep": ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "makes something too large"),
    "that is too long": ("a " * 10000, "is too long"),
}


def use_template(user: User, template: str | bytes) -> None:
    """Make the manifest one of chats with a template."""
    user.write("model/chat_template.jinja", template)
    user.write("prompts.txt", {"conversations": [[{"role": "user", "content": "ab"}]]})
    user.edit(
        {
            "inference.dataset.format": "conversations",
            "inference.n_prompts": 1,
            "inference.request_template.kind": "chat",
        }
    )


@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", TEMPLATES)
def test_a_template_that_attacks_or_fails_is_stopped(user: User, case: str) -> None:
    template, says = TEMPLATES[case]
    use_template(user, template)
    user.refused("realize", "tiny.json", says=says)
    assert not user.path("pwned").exists()
    user.recovers()


def test_a_template_that_is_not_utf_8_is_refused(user: User) -> None:
    use_template(user, b"\xff\xfe")
    user.refused("realize", "tiny.json", says="the chat template is not UTF-8")


CORRECTIONS: dict[str, Callable[[User], None]] = {
    "a date": lambda user: user.edit({"inference.pinned_date": "2026-01-31"}),
    "a template without one": lambda user: user.write(
        "model/chat_template.jinja", "{{ messages[0].content }}"
    ),
}


@pytest.mark.parametrize("case", CORRECTIONS)
def test_a_template_that_asks_for_today_works_once_that_is_settled(user: User, case: str) -> None:
    use_template(user, "{{ strftime_now('%d') }}")
    user.refused("realize", "tiny.json", says="asks for today's date")
    CORRECTIONS[case](user)
    user.does("lock", "tiny.json", "--update", "model.chat_template")
    user.does("realize", "tiny.json")


def test_prompts_and_names_that_steer_a_terminal_are_shown_as_escapes(user: User) -> None:
    ask(user, {"id": "a\x1b[2J\nb", "prompt": "a\x1b]0;x\x07\u202eb\u009b"})
    user.edit({"metadata.description": "\x1b[31mred\r"})
    user.does("realize", "tiny.json", "--name", "steering")
    for command in ("show", "log", "inspect"):
        shown = user.does(command, "steering").out
        assert not {"\x1b", "\x07", "\r", "\u202e", "\u009b"} & set(shown)
    assert "a\\x1b]0;x\\x07\\u202eb\\x9b" in user.does("show", "steering").out
    assert "\\x1b[31mred\\x0d" in user.does("inspect", "tiny.json").out
    document = user.does("show", "steering", "--json").document
    assert document["exchanges"][0]["prompt"] == "a\x1b]0;x\x07\u202eb\u009b"
