"""Every bit of a small store is turned over: it is found, or nothing that is asked for comes out otherwise."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from dis_store import Digest, DisError, Store
from effort import effort, is_stress
from errands import fill
from processes import at_once

pytestmark = pytest.mark.stress
SEED = 20261202
BITS = effort(1, 8)
INDEX_FLIPS = effort(600, 2_000)
BATCH = 500
ROOMS = ("objects", "manifests", "derivations", "realisations", "roots", "format.json")


@dataclass(frozen=True)
class Flip:
    """One bit of a file."""

    path: Path
    byte: int
    bit: int


@dataclass(frozen=True)
class Sample:
    """A sound store, and what it answers.

    Attributes:
        path: The store.
        files: The paths of the files of its objects.
        keys: The keys of its builds.
        truth: What it answers to all questions.
    """

    path: Path
    files: dict[Digest, list[str]]
    keys: list[Digest]
    truth: dict[str, object]

    def answers(self, store: Store) -> dict[str, object]:
        """Ask everything; a refusal is an answer."""
        questions: dict[str, Callable[[], object]] = {
            f"{digest}/{path}": partial(store.read_bytes, digest, path)
            for digest, paths in self.files.items()
            for path in paths
        }
        questions |= {
            f"closure of {digest}": lambda digest=digest: sorted(store.closure([digest]))  # type: ignore[misc]
            for digest in self.files
        }
        questions["objects"] = lambda: sorted(store.objects())
        questions["builds"] = lambda: [
            None if found is None else found.outputs for found in map(store.chosen, self.keys)
        ]
        questions["roots"] = lambda: [
            (name, root.object, root.key, root.derivation) for name, root in store.roots().items()
        ]
        return {name: answer(question) for name, question in questions.items()}


REFUSED = "refused"


def answer(question: Callable[[], object]) -> object:
    try:
        return question()
    except DisError:
        return REFUSED


@pytest.fixture
def sample(memory: Path) -> Sample:
    path = memory / "store"
    with Store.open(path) as store:
        fill(store)
        files = {each: [file.path for file in store.tree(each).files] for each in store.objects()}
        keys = [root.key for root in store.roots().values() if root.key is not None]
        store._foundation.index.query("PRAGMA wal_checkpoint(TRUNCATE)")
        sample = Sample(path, files, keys, {})
        sample.truth.update(sample.answers(store))
    forget_log(path)
    return sample


def forget_log(path: Path) -> None:
    for name in ("index.sqlite-wal", "index.sqlite-shm"):
        (path / name).unlink(missing_ok=True)


def judge(sample: Sample, flip: Flip) -> str | None:
    """Return what is wrong when the bit is turned over."""
    original = flip.path.read_bytes()
    spoiled = bytearray(original)
    spoiled[flip.byte] ^= 1 << flip.bit
    rewrite(flip.path, bytes(spoiled))
    try:
        with Store.open(sample.path) as store:
            return verdict(sample, store)
    except DisError:
        return None
    finally:
        rewrite(flip.path, original)
        forget_log(sample.path)


def verdict(sample: Sample, store: Store) -> str | None:
    answers = sample.answers(store)
    wrong = {name for name, found in answers.items() if found not in (sample.truth[name], REFUSED)}
    if served := [name for name in wrong if "/" in name]:
        return f"wrong bytes of {served}"
    if wrong and store.verify(None).ok:
        return f"not found: {sorted(wrong)}"
    return None


def rewrite(path: Path, data: bytes) -> None:
    """Change the content of a file, and nothing else of it."""
    mode = path.stat().st_mode
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.write(data)
    path.chmod(mode)


def in_use(index: Path) -> list[int]:
    """Return the places of the bytes that say something: most of a small database is zeros that nobody reads."""
    data = index.read_bytes()
    return [place for place in range(len(data)) if any(data[max(0, place - 2) : place + 3])]


def check_all(sample: Sample, flips: Sequence[Flip]) -> None:
    """Judge flips in children, which a library that cannot stand one of them would end."""

    def judge_some(batch: Sequence[Flip]) -> None:
        bad = {flip: found for flip in batch if (found := judge(sample, flip)) is not None}
        assert bad == {}

    for start in range(0, len(flips), BATCH):
        at_once([partial(judge_some, flips[start : start + BATCH])])


@pytest.mark.slow
def test_a_bit_of_an_object_or_a_record_is_found_or_means_nothing(
    sample: Sample, tell: Callable[[str], None]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - which one is no secret
    paths = [
        path
        for room in ROOMS
        for path in sorted([sample.path / room, *(sample.path / room).rglob("*")])
        if path.is_file() and not path.is_symlink()
    ]
    flips = [
        Flip(path, byte, bit)
        for path in paths
        for byte in range(path.stat().st_size)
        for bit in chance.sample(range(8), BITS)
    ]
    assert len({flip.path for flip in flips}) > 7
    check_all(sample, flips)
    tell(f"{len(flips)} bits, 0 missed, 0 wrong bytes served")


def test_a_bit_of_the_index_is_found_or_means_nothing(
    sample: Sample, tell: Callable[[str], None]
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - which one is no secret
    index = sample.path / "index.sqlite"
    size = index.stat().st_size
    flips = [
        Flip(index, byte, chance.randrange(8)) for byte in chance.sample(range(size), INDEX_FLIPS)
    ]
    if is_stress():
        flips = [Flip(index, byte, bit) for byte in in_use(index) for bit in range(8)] + flips
    check_all(sample, flips)
    tell(f"{len(flips)} bits, 0 missed, 0 wrong bytes served")
    # And what is left of an index does not matter: it is made anew.
    sound = index.read_bytes()
    for flip in flips[:: effort(10, 50)]:
        spoiled = bytearray(sound)
        spoiled[flip.byte] ^= 1 << flip.bit
        forget_log(sample.path)
        index.write_bytes(spoiled)
        with Store.open(sample.path) as store:
            assert store.reindex().problems == (), flip
            assert sample.answers(store) == sample.truth, flip
