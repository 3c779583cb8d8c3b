"""A registry may answer anything: nothing wrong is registered, nothing secret goes elsewhere, and it ends."""

import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dis_derivations.distribution.pulling import plan_pull, pull
from dis_derivations.distribution.pushing import PushPlan, plan_push
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.credentials import Login
from dis_derivations.registry.reference import RegistryReference, parse_reference
from dis_derivations.transport.conduct import Conduct
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import DisError
from hostile_answers import Answers
from hostile_registry import REPOSITORY, TAG, Change, Site, serving
from small_closures import kept_closure

CANARY = "canary-password"
NAMES = sorted(Answers("").by_name())
# They give what is right in the end, or what nobody can tell from it.
HARMLESS = {
    "index: it is longer than it says",
    "part: it is longer than it says",
    "blob: it is longer than it says",
}
# They take as long as patience lasts, several times over.
SLOW = ("trickle", "trickles", "for ever", "hangs up")
QUICK = Conduct(
    connect_seconds=2.0,
    silence_seconds=0.5,
    answer_seconds=1.0,
    slow_seconds=0.5,
    slow_bytes=1 << 10,
    attempts=2,
    first_delay=0.01,
    longest_delay=0.02,
    ranges=2,
    piece_bytes=1 << 20,
)
MOST_SECONDS = 20.0
MOST_BYTES = 100 << 20


@dataclass(frozen=True)
class Field:
    """A hostile registry with a closure, and another server to which nothing may leak."""

    site: Site
    elsewhere: Site
    plan: PushPlan
    objects: frozenset[Digest]

    @property
    def reference(self) -> RegistryReference:
        return parse_reference(f"oci://{self.site.host}/{REPOSITORY}:{TAG}")

    def client(self, home: Path) -> RegistryClient:
        return RegistryClient({"HOME": str(home)}, QUICK, login=Login("canary-user", CANARY))


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    site, elsewhere = Site(), Site()
    path = tmp_path_factory.mktemp("source")
    with Store.open(path / "store") as store, serving(site), serving(elsewhere):
        kept = kept_closure(store)
        reference = parse_reference(f"oci://{site.host}/{REPOSITORY}:{TAG}")
        plan = plan_push(store, kept, reference)
        site.hold(plan)
        yield Field(site, elsewhere, plan, frozenset(each.digest for each in kept.objects))


def attempt(
    field: Field, directory: Path, change: Change, *, pinned: bool = False
) -> DisError | None:
    """Pull into an empty store while the registry behaves so; return the error."""
    reference = field.reference
    if pinned:
        reference = RegistryReference(reference.host, reference.repository, TAG, field.plan.digest)
    field.site.change = change
    failure = None
    try:
        with Store.open(directory / "store") as store:
            try:
                with field.client(directory) as client:
                    pull(store, client, plan_pull(store, client, reference))
            except DisError as error:
                failure = error
            assert set(store.objects()) <= field.objects
            assert not store.verify().problems
            if failure is None:
                assert set(store.objects()) == field.objects
    finally:
        field.site.change = lambda _, reply: reply
    return failure


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name.endswith(SLOW) else name for name in NAMES],
)
def test_no_answer_of_a_registry_does_harm(field: Field, tmp_path: Path, name: str) -> None:
    field.elsewhere.requests.clear()
    start = time.monotonic()

    failure = attempt(field, tmp_path, Answers(field.elsewhere.host).by_name()[name])

    assert time.monotonic() - start < MOST_SECONDS
    assert (failure is None) == (name in HARMLESS), failure
    if failure is not None:
        told = f"{failure.what} {failure.cause} {failure.hint}"
        assert CANARY not in told
        assert failure.what.isprintable()
    for request in field.elsewhere.requests:
        assert "Authorization" not in request.headers
        assert CANARY not in f"{request.path} {request.headers}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        if any(
            word in name for word in ("end", "million", "deep", "compressed", "megabyte", "longer")
        )
    ],
)
def test_no_answer_of_a_registry_takes_much_memory(field: Field, tmp_path: Path, name: str) -> None:
    tracemalloc.start()
    try:
        attempt(field, tmp_path, Answers(field.elsewhere.host).by_name()[name])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < MOST_BYTES


@pytest.mark.parametrize("what", ["knows who asks", "has seen a token"])
def test_who_was_sent_elsewhere_came_there_with_nothing_secret(
    field: Field, tmp_path: Path, what: str
) -> None:
    field.elsewhere.requests.clear()
    change = Answers(field.elsewhere.host).by_name()[f"challenge: a redirect once it {what}"]

    attempt(field, tmp_path, change)

    assert [request.path for request in field.elsewhere.requests] == ["/stolen"]
    assert "Authorization" not in field.elsewhere.requests[0].headers


def test_the_honest_registry_is_pulled_from_whole(field: Field, tmp_path: Path) -> None:
    assert attempt(field, tmp_path, lambda _, reply: reply) is None


def test_there_are_as_many_hostile_answers_as_were_promised() -> None:
    assert len(NAMES) >= 60
