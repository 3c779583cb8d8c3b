"""`dis report` says of each signed document who signed it, and whether that is to be believed."""

from pathlib import Path

import pytest

from command_line import Dis, Realised


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's file of settings, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "personal"))
    (tmp_path / "personal" / "dis").mkdir(parents=True)
    return tmp_path / "personal" / "dis" / "config.toml"


def standings(dis: Dis) -> set[tuple[str, str]]:
    listed = dis("report", "first", "--json").document["signatures"]
    return {(each["about"], each["standing"]) for each in listed}


def both(standing: str) -> set[tuple[str, str]]:
    return {("claim", standing), ("provenance", standing)}


def test_signatures_are_verified_against_the_keys_of_the_settings(
    dis: Dis, own_store: Realised, config: Path, tmp_path: Path
) -> None:
    fingerprint = dis("key", "generate", "laptop").out.strip()
    dis("sign", "first")
    assert standings(dis) == both("not trusted")
    assert "no trusted key signed these results" in dis("report", "first").out

    lines = dis("key", "show", "laptop", "--setting").out
    config.write_text(lines, "utf-8")
    assert standings(dis) == both("trusted")
    text = dis("report", "first").out
    assert "1 trusted key signed these results: laptop" in text
    assert "verified: signed by the trusted key laptop" in text
    page = tmp_path / "first.html"
    assert dis("report", "first", "--html", page).code == 0
    assert "verified: signed by the trusted key laptop" in page.read_text("utf-8")

    config.write_text(f'revoked-keys = ["{fingerprint}"]\n{lines}', "utf-8")
    assert standings(dis) == both("revoked")

    config.unlink()
    dis("key", "remove", "laptop", "--yes")
    assert standings(dis) == both("unknown key")
    assert fingerprint in dis("report", "first").out


def test_a_run_that_nobody_signed_says_so(dis: Dis, realised: Realised) -> None:
    assert dis("report", "first", "--json").document["signatures"] == []
    assert "Signed documents\n  none" in dis("report", "first").out
