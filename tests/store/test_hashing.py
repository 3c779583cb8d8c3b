import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from dis_store.hashing import ContentHasher

CHUNK = bytes(1 << 20)


class Interrupted(BaseException):
    """Ctrl-C, as it comes from nowhere."""


def interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


@pytest.fixture
def alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def update_for_ever(hasher: ContentHasher, *, interrupted_after: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, interrupted_after)
    while True:
        hasher.update(CHUNK)


@pytest.mark.usefixtures("alarm")
def test_an_interruption_at_any_moment_leaves_no_thread_and_waits_for_none() -> None:
    known = set(threading.enumerate())
    for round_ in range(1, 101):
        hasher = ContentHasher()
        for _ in range(5):  # the thread has begun: what `threading` does then is not ours
            hasher.update(CHUNK)
        with pytest.raises(Interrupted):
            update_for_ever(hasher, interrupted_after=round_ * 3e-4)
        # If it waited for a thread that nobody wakes, this would end it.
        signal.setitimer(signal.ITIMER_REAL, 20)
        hasher.abandon()
        for thread in set(threading.enumerate()) - known:
            thread.join()
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_long_stream_has_the_digests_of_its_bytes() -> None:
    hashers = [ContentHasher(threaded=threaded) for threaded in (True, False)]
    for hasher in hashers:
        for number in range(20):
            hasher.update(bytes([number]) * (1 << 20))
    first, second = (hasher.finish() for hasher in hashers)
    assert first == second
    assert first.size == 20 << 20
