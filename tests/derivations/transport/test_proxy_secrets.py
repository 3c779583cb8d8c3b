"""What is said of a proxy holds no password of it, in whatever form it was sent."""

import base64

import pytest

from dis_derivations.transport.proxy_secrets import without_proxy_secrets

ENVIRONMENT = {
    "https_proxy": "http://me:p%40ss:w0rd@proxy.example.org:3128",
    "ALL_PROXY": "other:s3cret@127.0.0.1:1080",
    "no_proxy": "a@b",
    "HTTP_PROXY": "http://[::1",
}


@pytest.mark.parametrize(
    "secret",
    [
        "p%40ss:w0rd",
        "p@ss:w0rd",
        "s3cret",
        base64.b64encode(b"me:p@ss:w0rd").decode(),
        base64.b64encode(b"other:s3cret").decode().rstrip("="),
    ],
)
def test_every_form_is_left_out(secret: str) -> None:
    said = without_proxy_secrets(f"407 you sent <{secret}> to proxy.example.org", ENVIRONMENT)
    assert secret not in said
    assert said == "407 you sent <…> to proxy.example.org"


def test_other_words_stay_as_they_are() -> None:
    text = "me, a@b and 127.0.0.1"
    assert without_proxy_secrets(text, ENVIRONMENT) == text
    assert without_proxy_secrets(text, {}) == text
