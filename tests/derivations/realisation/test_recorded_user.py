"""The user of a record has a name, or a number where the system knows none."""

import getpass
import os

import pytest

from dis_derivations.realisation.recorded_user import recorded_user


def test_a_user_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "somebody")
    assert recorded_user() == "somebody"


@pytest.mark.parametrize("error", [KeyError("uid"), OSError("no entry")])
def test_a_user_without_a_name_is_a_number(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def unnamed() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", unnamed)
    assert recorded_user() == str(os.getuid())
