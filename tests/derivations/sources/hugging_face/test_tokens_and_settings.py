"""Whom the token of a hub goes to, and which settings are refused."""

from dataclasses import replace

import pytest

from dis_derivations.sources import hub_client
from dis_derivations.sources.hub_client import HubAccessError, HubError
from dis_derivations.sources.hub_settings import hub_settings
from dis_derivations.sources.source import WantedFile
from dis_store import Store
from dis_store.errors import (
    DisError,
    InvalidInputError,
)
from hub_files import TOKEN, fetched, source
from hub_server import Handler, Hub, Served


def test_the_token_goes_to_the_hub_and_to_nobody_else(
    hub: Hub, files: dict[str, Served], store: Store
) -> None:
    hub.add("org/name", files, token=TOKEN)
    fetched(store, source(), *(WantedFile(path) for path in files))
    assert {seen.headers.get("authorization") for seen in hub.requests("", "hub")} == {
        f"Bearer {TOKEN}"
    }
    others = hub.requests("", "cdn")
    assert others
    assert not [seen for seen in others if TOKEN in str(seen)]


def test_a_next_page_elsewhere_does_not_get_the_token(hub: Hub, files: dict[str, Served]) -> None:
    def lead_away(handler: Handler) -> None:
        handler.send_json([], headers={"Link": f'<{hub.cdn}/page>; rel="next"'})

    hub.fail("/tree/", lead_away)
    hub.fail("/page", lambda handler: handler.send_json([]), host="cdn")
    assert source().available() is None
    (request,) = hub.requests("/page", "cdn")
    assert TOKEN not in str(request)


def test_the_token_is_no_part_of_how_settings_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    settings = hub_client.with_token(hub_settings())
    assert settings.token == TOKEN
    assert TOKEN not in repr(settings)


def test_an_encrypted_hub_does_not_lead_to_an_address_that_is_not(hub: Hub) -> None:
    settings = replace(hub_settings(), endpoint="https://hub.example")
    with hub_client.HubClient(settings) as client, pytest.raises(HubError, match="not encrypted"):
        client.get(hub.endpoint)
    assert hub.seen == []


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "hub.example",
        "ftp://hub.example",
        "https://",
        "https://u:p@hub.example",
        "http://localhost/?q=1",
        "http://[1",
        "http://hub.example",
    ],
)
def test_an_endpoint_that_is_none_is_refused_without_being_repeated(endpoint: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        hub_settings({"HF_ENDPOINT": endpoint})
    assert "u:p" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("name", ["", "a/b/c", "../b", "a/..", "a b", "a?b", "a/b#c", "/a", "a/"])
def test_a_name_that_is_none_is_refused_and_nothing_is_asked(hub: Hub, name: str) -> None:
    with pytest.raises(InvalidInputError, match="is not the name of a repository"):
        source(name)
    assert hub.seen == []


@pytest.mark.parametrize("token", ["hf_\u2026", "hf_a b", "hf_\x7f"])
def test_a_token_that_is_none_is_refused_without_being_shown(
    hub: Hub, files: dict[str, Served], monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(HubAccessError) as caught:
        source().commit()
    assert "hf_" not in str(caught.value)
    assert hub.seen == []


@pytest.mark.parametrize("seconds", ["x", "0", "-1", "inf", "nan"])
def test_a_time_that_is_none_is_refused(seconds: str) -> None:
    with pytest.raises(DisError, match="HF_HUB_DOWNLOAD_TIMEOUT"):
        hub_settings({"HF_HUB_DOWNLOAD_TIMEOUT": seconds})
