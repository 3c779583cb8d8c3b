"""Where a server is, and who may see its key."""

import pytest

from dis_derivations.engines.openai_compatible.place import API_KEY, server_place
from dis_store.errors import InvalidInputError

SECRET = "s3same"  # noqa: S105 - of this test


@pytest.mark.parametrize(
    "url", ["https://h.example", "https://h.example/", "https://h.example/v1/"]
)
def test_an_address_may_end_with_v1_or_not(url: str) -> None:
    assert str(server_place(url, {}).below("v1/models")) == "https://h.example/v1/models"


def test_a_server_may_be_below_a_path() -> None:
    assert server_place("https://h.example/a/v1", {}).below("version").path == "/a/version"


@pytest.mark.parametrize(
    "url",
    [
        "http://h.example/v1", "ftp://h.example", "https://u:p@h.example/", "https://h.example/?key=1",
        "https://h.example/#x", "nonsense",
    ],
)  # fmt: skip
def test_an_address_that_must_not_be_contacted_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        server_place(url, {})
    assert "u:p" not in f"{caught.value.what}{caught.value.cause}{caught.value.hint}"


def test_a_key_is_for_the_server_that_it_is_given_with() -> None:
    environment = {API_KEY: f"https://h.example {SECRET}"}
    assert server_place("https://h.example/v1", environment).key == SECRET
    for other in ("https://evil.example/v1", "https://h.example:8443/v1", "http://localhost/v1"):
        assert server_place(other, environment).key is None
    assert SECRET not in repr(server_place("https://h.example/v1", environment))


@pytest.mark.parametrize(
    "value", [SECRET, f"{SECRET} x", "https://h.example", "https://h.example a\nb"]
)
def test_a_malformed_key_is_refused_and_not_quoted(value: str) -> None:
    with pytest.raises(InvalidInputError, match=API_KEY) as caught:
        server_place("https://h.example/v1", {API_KEY: value})
    assert SECRET not in f"{caught.value.what}{caught.value.cause}{caught.value.hint}"
