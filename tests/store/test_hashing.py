import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from dis_store.digest import Digest, Sha256
from dis_store.errors import InvalidInputError
from dis_store.hashing import CHUNK_BYTES, ContentHasher
from tensor_layouts import Raw, expected, file_of, found

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
    hashers = [ContentHasher(threaded=each) for each in (True, False)]
    for hasher in hashers:
        for number in range(20):
            hasher.update(bytes([number]) * (1 << 20))
    first, second = (hasher.finish() for hasher in hashers)
    assert first == second
    assert first.size == 20 << 20


def test_tensors_are_the_same_with_a_thread_and_without() -> None:
    size = 9 << 20
    tensors = {name: Raw("U8", (size,), bytes([number]) * size) for number, name in enumerate("ab")}
    content = file_of(tensors)
    hashers = [ContentHasher(threaded=each) for each in (True, False)]
    for hasher in hashers:
        for start in range(0, len(content), CHUNK_BYTES):
            hasher.update(content[start : start + CHUNK_BYTES])
    first, second = (hasher.finish() for hasher in hashers)
    assert first == second
    assert found(first.tensors) == expected(tensors)


class FailingLate:
    """A digest that fails when its stream has a thread for it."""

    def __init__(self) -> None:
        self._taken = 0

    def update(self, chunk: bytes) -> None:
        self._taken += len(chunk)
        if self._taken > 8 << 20:
            raise MemoryError


@pytest.mark.usefixtures("alarm")
def test_what_fails_in_a_thread_is_told_to_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dis_store.hashing.hashlib.sha256", FailingLate)
    hasher = ContentHasher()
    monkeypatch.undo()
    signal.setitimer(signal.ITIMER_REAL, 20)
    for _ in range(40):  # more than may wait: a thread that had ended would never take them
        hasher.update(CHUNK)
    with pytest.raises(MemoryError):
        hasher.finish()
    hasher.abandon()


@pytest.mark.parametrize("how", [{}, {"threaded": False}, {"with_sha256": False}])
def test_only_a_long_stream_whose_sha256_is_computed_has_a_thread(how: dict[str, bool]) -> None:
    before = threading.active_count()
    hasher = ContentHasher(**how)
    for number in range(20):
        hasher.update(CHUNK)
        assert (threading.active_count() > before) == (not how and number >= 3)
    content = hasher.finish()
    assert content.size == 20 << 20
    assert content.known_sha256 == (Sha256.of(CHUNK * 20) if how.get("with_sha256", True) else None)
    assert threading.active_count() == before


def test_a_sha256_that_was_not_computed_is_not_given_out() -> None:
    hasher = ContentHasher(with_sha256=False)
    hasher.update(CHUNK)
    content = hasher.finish()
    assert content.blake3 == Digest.of(CHUNK)
    with pytest.raises(InvalidInputError, match="SHA-256"):
        _ = content.sha256
