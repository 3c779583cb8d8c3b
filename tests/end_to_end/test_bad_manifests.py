"""Manifests that are broken, are no manifests, or ask for what cannot be: refused, and nothing happens."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from users import User

SAMPLING = "inference.request_template.sampling"

# What replaces a part of the manifest's text, and what is said about it.
TEXTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "line 1, column 1"),
    "white space": (lambda _: b" \n ", "line 2, column 2"),
    "cut off": (lambda text: text[:200], "line 8, column 4"),
    "two documents": (lambda text: text + text, "Extra data"),
    "a comment": (lambda text: b"// hi\n" + text, "line 1, column 1"),
    "single quotes": (lambda text: text.replace(b'"', b"'"), "double quotes"),
    "a key twice": (
        lambda text: text.replace(b'"kind"', b'"kind": "x", "kind"', 1),
        "the key 'kind' appears twice",
    ),
    "NaN": (lambda text: text.replace(b"0.0", b"NaN"), "NaN is not a JSON number"),
    "Infinity": (lambda text: text.replace(b"0.0", b"-Infinity"), "-Infinity is not a JSON number"),
    "a number beyond doubles": (lambda text: text.replace(b"0.0", b"1e999"), "1e999 is too large"),
    "a huge integer": (
        lambda text: text.replace(b'"schema_version": 1', b'"schema_version": ' + b"9" * 5000),
        "beyond ±(2^53-1)",
    ),
    "an integer beyond doubles": (
        lambda text: text.replace(b'"hardware": {}', b'"hardware": {"x_a": 9007199254740993}'),
        "9007199254740993 is beyond",
    ),
    "too deep": (lambda _: b"[" * 100_000, "deeper than 64 levels"),
    "deep notes": (
        lambda text: text.replace(b"{}", b'{"x_a": ' + b"[" * 70 + b"]" * 70 + b"}", 1),
        "deeper than 64 levels",
    ),
    "a byte order mark": (lambda text: b"\xef\xbb\xbf" + text, "byte order mark"),
    "UTF-16": (lambda text: text.decode().encode("utf-16"), "looks like UTF-16"),
    "UTF-16 without a mark": (lambda text: text.decode().encode("utf-16-le"), "looks like UTF-16"),
    "Latin-1": (lambda text: text.replace(b"tiny", b"t\xefny", 1), "line 5, column 15: byte 0xef"),
    "half a character": (
        lambda text: text.replace(b'"tiny"', b'"\\ud800"', 1),
        "half of a surrogate pair",
    ),
    "half a character in a key": (
        lambda text: text.replace(b"{}", b'{"x_\\ud800": 1}', 1),
        "half of a surrogate pair",
    ),
    "a pickle": (lambda _: b"\x80\x04\x95", "byte 0x80 is not UTF-8"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_text_that_is_not_strict_json_is_refused(user: User, case: str) -> None:
    change, says = TEXTS[case]
    user.alter("tiny.json", change)
    user.refused("realize", "tiny.json", says=("tiny.json is not valid JSON", says))
    user.refused("lock", "tiny.json", says=says)
    user.recovers()


@pytest.mark.parametrize("text", ["[]", '"x"', "null", "7", "true"])
def test_json_that_is_no_object_is_no_manifest(user: User, text: str) -> None:
    user.write("tiny.json", text)
    user.refused("realize", "tiny.json", says="a manifest is a JSON object")


THINGS: dict[str, tuple[Callable[[User], object], str]] = {
    "nothing": (lambda _: None, "there is no file tiny.json"),
    "a directory": (lambda user: user.path("tiny.json").mkdir(), "Is a directory"),
    "a named pipe": (lambda user: os.mkfifo(user.path("tiny.json")), "not a regular file"),
    "a link to itself": (
        lambda user: user.path("tiny.json").symlink_to("tiny.json"),
        "symbolic links",
    ),
    "a link to nothing": (
        lambda user: user.path("tiny.json").symlink_to("gone"),
        "there is no file",
    ),
    "a device": (lambda user: user.path("tiny.json").symlink_to("/dev/zero"), "not a regular file"),
}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.timeout(30)
def test_a_thing_that_is_no_file_is_refused_at_once(user: User, thing: str) -> None:
    put, says = THINGS[thing]
    user.path("tiny.json").unlink()
    put(user)
    user.refused("realize", "tiny.json", says=says)
    user.recovers()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("prompts.txt/tiny.json", "Not a directory"),
        ("a" * 5000, "File name too long"),
        ("a\0b.json", "is not a path"),
        ("nowhere/tiny.json", "there is no file"),
        ("", "no manifest is named"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(user: User, path: str, says: str) -> None:
    user.refused("realize", path, says=says)


FIELDS: dict[str, tuple[dict[str, Any], int, str]] = {
    "another kind": (
        {"kind": "vllm.deterministic_inference_lock"},
        2,
        "did you mean 'vllm.deterministic_inference_manifest'?",
    ),
    "a later version": ({"schema_version": 2}, 2, "/schema_version must be 1, not 2"),
    "a version as text": ({"schema_version": "1"}, 2, "must be an integer"),
    "an unknown block": ({"inferense": {}}, 2, "did you mean 'inference'?"),
    "an unknown field": ({f"{SAMPLING}.temprature": 0}, 2, "did you mean 'temperature'?"),
    "an unknown field that steers": ({"inference.\x1b[2J": 3}, 2, "\\u001b[2J is not a known"),
    "no tokens": ({f"{SAMPLING}.max_tokens": 0}, 2, "max_tokens must be greater than 0"),
    "fewer than no tokens": ({f"{SAMPLING}.max_tokens": -1}, 2, "must be greater than 0"),
    "half a token": ({f"{SAMPLING}.max_tokens": 1.5}, 2, "must be an integer, not 1.5"),
    "sampling without a seed": ({f"{SAMPLING}.temperature": 0.7}, 2, "must have 'seed'"),
    "no prompts": ({"inference.n_prompts": 0}, 2, "must be greater than 0"),
    "prompts as text": ({"inference.n_prompts": "3"}, 2, 'must be an integer, not "3"'),
    "a date that is none": ({"inference.pinned_date": "2026-02-30"}, 2, "YYYY-MM-DD"),
    "the regulated profile": ({"runtime.profile": "regulated"}, 5, "runtime.profile"),
    "activations": (
        {"capture.activations": {"enabled": True, "hooks": ["layers.0"]}},
        5,
        "capture.activations",
    ),
    "adapters": ({"model.adapters": [{"name": "x"}]}, 5, "model.adapters"),
    "a digest of another kind": ({"inference.dataset.digest": "md5:00"}, 2, "SHA-256"),
    "an unset digest": ({"inference.dataset.digest": "sha256:unset"}, 2, "its digest is unset"),
    "files that nobody lists": (
        {"model.weights.source": {"type": "pypi", "id": "a"}},
        2,
        "must list its 'files'",
    ),
    "a hub that is not there": (
        {"model.weights.source": {"type": "huggingface", "repo": "a/b", "revision": "main"}},
        5,
        "a/b at 'main' cannot be had from the hub",
    ),
    "a revision that nobody names": (
        {"model.weights.source": {"type": "huggingface", "repo": "a/b"}},
        2,
        "its revision is unset",
    ),
    "a variable that is none": ({"outputs.directory": "${home}"}, 2, "not ${home}"),
    "a path that is none": ({"model.weights.source.local_path": "a\0b"}, 2, "is not a path"),
    "a name that is too long for a file": (
        {"model.weights.source.local_path": "x" * 300},
        5,
        "File name too long",
    ),
    "a directory that is not there": (
        {"model.weights.source.local_path": "gone"},
        5,
        "there is no directory",
    ),
}


@pytest.mark.parametrize("case", FIELDS)
def test_a_field_that_cannot_be_is_refused_by_name(user: User, case: str) -> None:
    changes, code, says = FIELDS[case]
    user.edit(changes)
    user.refused("realize", "tiny.json", code=code, says=says)
    user.recovers()


@pytest.mark.parametrize(
    ("backend", "changes", "says"),
    [
        ("vllm", {"vllm.mode": "server"}, "vllm.mode: the vllm engine is offline"),
        ("transformers", {"vllm.engine_args.dtype": "fp8"}, "vllm.engine_args.dtype: is 'fp8'"),
        (
            "openai_compatible",
            {"capture.engine_trace": {"enabled": True}},
            "capture.engine_trace: a server does not tell",
        ),
        (
            "mock",
            {"capture.activations": {"enabled": True, "hooks": ["layers.0"]}},
            "capture.activations: the mock engine does not capture",
        ),
    ],
)
def test_what_an_engine_cannot_do_is_refused_before_anything_is_read(
    user: User, backend: str, changes: dict[str, object], says: str
) -> None:
    user.path("model/model.safetensors").unlink()
    execution = {"backend": backend, "base_url": "https://example.org"}
    user.edit({"runtime.execution": execution, **changes})
    user.refused("realize", "tiny.json", code=5, says=says)


@pytest.mark.parametrize(
    "address",
    ["http://example.org/v1", "https://u:sesame@example.org/", "https://example.org/?k=sesame"],
)
def test_a_server_that_must_not_be_asked_is_no_manifest(user: User, address: str) -> None:
    user.edit({"runtime.execution": {"backend": "openai_compatible", "base_url": address}})
    said = user.refused("realize", "tiny.json", code=2, says="/runtime/execution/base_url")
    assert "sesame" not in said


def test_an_unknown_engine_is_no_manifest(user: User) -> None:
    user.edit({"runtime.execution.backend": "vlm"})
    user.refused("realize", "tiny.json", says="did you mean 'vllm'?")


def test_all_faults_are_told_at_once_up_to_twenty(user: User) -> None:
    user.edit({f"bad_{number}": 1 for number in range(40)})
    said = user.refused("realize", "tiny.json", says=("it has 40 faults", "and 20 more"))
    assert said.count("is not a known field") == 20


def test_a_fault_of_an_element_is_no_fault_of_its_list(user: User) -> None:
    said = user.refused(
        "realize", "tiny.json", "--set", "inference.requests.0.id=x", says="has no 'kind'"
    )
    assert "not a list" not in said


BASES: dict[str, tuple[dict[str, Any], str]] = {
    "itself": ({"tiny.json": "tiny.json"}, "inherits from itself"),
    "a circle": (
        {"tiny.json": "a.json", "a.json": "b.json", "b.json": "a.json"},
        "x_base_manifest:",
    ),
    "a missing one": ({"tiny.json": "gone.json"}, "names it as x_base_manifest"),
    "one that is a directory": ({"tiny.json": "model"}, "names it as x_base_manifest"),
    "one that is no text": ({"tiny.json": 5}, "has a wrong x_base_manifest"),
    "too many": (
        {"tiny.json": "0.json"} | {f"{number}.json": f"{number + 1}.json" for number in range(20)},
        "has too many bases",
    ),
}


@pytest.mark.parametrize("case", BASES)
def test_a_base_that_cannot_be_followed_is_refused(user: User, case: str) -> None:
    bases, says = BASES[case]
    manifest = user.document()
    for name, base in bases.items():
        user.write(name, json.dumps({**manifest, "x_base_manifest": base}))
    user.refused("realize", "tiny.json", says=says)
    user.recovers()
