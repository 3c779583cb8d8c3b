"""Being the only builder of a key, with patience."""

import os
import threading

import pytest

from dis_derivations.realisation.key_lock import sole_builder
from dis_store import LockHolder, Store
from dis_store.digest import Digest
from dis_store.errors import LockTimeoutError
from dis_store.patience import Patience

KEY = Digest("a" * 64)


def test_a_build_that_takes_another_process_too_long_is_an_error_that_names_it(
    store: Store,
) -> None:
    told: list[LockHolder] = []
    with Store.open(store.path, patience=Patience(seconds=0.05)) as hasty:
        with store.build_lock(KEY), pytest.raises(LockTimeoutError) as refused:  # noqa: SIM117
            with sole_builder(hasty, KEY, threading.Event(), told.append):
                pytest.fail("somebody else has it")
        assert [holder.pid for holder in told] == [os.getpid()]
        assert f"process {os.getpid()}" in str(refused.value.cause)
        assert refused.value.exit_code == 3
        with sole_builder(hasty, KEY, threading.Event(), told.append):
            pass
    assert len(told) == 1
