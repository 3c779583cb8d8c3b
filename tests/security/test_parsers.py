"""Every reader of bytes from outside reads or refuses whatever it is given, in little time and memory."""

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import evil_documents
import run_documents
from bounds import little_computing, little_memory
from dis_store import canonical_json
from dis_store.errors import DisError
from effort import effort
from mutations import TOKENS, mutations
from parsers import PARSERS, Parser

CAPTURED = json.loads(run_documents.FILES["bundle.json"])["capture"]


def tried(parser: Parser, data: bytes) -> bool:
    """Tell whether the reader accepts the bytes; fail if it does anything but read or refuse them."""
    with little_computing():
        try:
            found = parser.read(data)
        except DisError:
            return False
    if parser.write is not None:
        assert parser.write(found) == data
    return True


@pytest.mark.parametrize("name", PARSERS)
def test_the_good_documents_are_read(name: str) -> None:
    for seed in PARSERS[name].seeds:
        assert tried(PARSERS[name], seed)


@pytest.mark.parametrize("name", PARSERS)
def test_every_token_anywhere_is_read_or_refused(name: str) -> None:
    parser = PARSERS[name]
    seed = parser.seeds[0]
    places = (0, len(seed) // 3, len(seed) // 2, len(seed))
    with little_memory():
        for token in TOKENS:
            for place in places[: 1 if parser.slow else None]:
                tried(parser, seed[:place] + token + seed[place:])
            tried(parser, token)


@pytest.mark.parametrize("name", PARSERS)
def test_whatever_is_changed_is_read_or_refused(name: str) -> None:
    parser = PARSERS[name]

    @settings(
        max_examples=effort(60, 2000) if parser.slow else effort(300, 20_000),
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(data=mutations(parser.seeds, documents=parser.json))
    def check(data: bytes) -> None:
        tried(parser, data)

    with little_memory():
        check()


def together(**changed: object) -> bytes:
    """Return all documents of a run, some members of which are others: `manifest__capture` and the like."""
    documents = json.loads(run_documents.SEED)
    for name, value in changed.items():
        document, member = name.split("__")
        documents[document][member] = value
    return canonical_json.encode(documents)


BROKE = {
    "objects in letters": ("header of closures", evil_documents.CLOSURE_HEADERS["objects in letters"]),
    "objects of a half": ("header of closures", evil_documents.CLOSURE_HEADERS["objects of a half"]),
    "a root that is not canonical": ("root", b"\n" + PARSERS["root"].seeds[0]),
    "a result link with a null": (
        "result link", PARSERS["result link"].seeds[0].replace(b"/nowhere", b"/nowhere\\u0000"),
    ),
    "an integer of thousands of digits": ("settings of a project", b"jobs = " + b"1" * 5000),
    "fifty thousand brackets": ("settings of a project", b"x = " + b"[" * 50_000),
    "a time of thousands of digits": ("length of time", b"1" * 5000 + b"d"),
    "an index of thousands of digits": ("override", b"inference.requests." + b"1" * 5000 + b".id=x"),
    "a kind of bundle that is a list": ("signed document", b'{"mediaType":[]}'),
    "a kind of trusted root that is a list": ("trusted root", b'{"mediaType":[]}'),
    "a template whose name is a list": (
        "tokenizer_config.json", b'{"chat_template":[{"name":[],"template":"x"}]}',
    ),
}  # fmt: skip


@pytest.mark.parametrize("found", BROKE)
def test_what_once_broke_a_reader_is_refused(found: str) -> None:
    name, data = BROKE[found]
    assert not tried(PARSERS[name], data)


READ = {
    "a holder of a lock that is only brackets": ("who holds a lock", b"[" * 60_000),
    "captures that are no settings": (
        "documents of a run together", together(manifest__capture=0, bundle__capture=CAPTURED),
    ),
    "requests that are a number": ("documents of a run together", together(manifest__inference={"requests": 5})),
    "locked files that are a number": ("documents of a run together", together(lock__artifacts=5)),
}  # fmt: skip


@pytest.mark.parametrize("found", READ)
def test_what_once_broke_a_reader_is_read_for_what_it_is_worth(found: str) -> None:
    name, data = READ[found]
    assert tried(PARSERS[name], data)
