"""`image-trust` on every way on which an image is used: locked, realised, recalled, loaded into Docker."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import SHORTER, Outcome, call
from dis_derivations.lock.document import Lock
from dis_derivations.lock.resolution import resolve_lock
from dis_derivations.manifest.loading import load_manifest
from dis_derivations.registry.client import RegistryClient
from dis_store import Store
from images import LayoutMaker, tar_of
from published_images import FIELD, QUICKSTART, Published, attestation
from real_registry import RealRegistry, running_registry
from run_shelf import make_writable
from signers import signer

TRUSTED = (
    f'[trusted-keys.alice]\nkey = "{signer("alice").public.to_base64()}"\nroles = ["images"]\n'
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def published(
    request: pytest.FixtureRequest, tmp_path: Path, registry: RealRegistry
) -> Iterator[Published]:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:80].strip("-")
    with RegistryClient({"HOME": str(tmp_path)}) as client:
        yield Published(client, f"{registry.host}/{name}:v1", tmp_path)


class User:
    """Somebody with a manifest that names the image by its tag, and settings."""

    def __init__(self, place: Path, published: Published) -> None:
        self.place, self.published = place, published
        self.settings = place / "personal/dis/config.toml"
        self.settings.parent.mkdir(parents=True)
        reference = published.reference
        self.name = f"{reference.host}/{reference.repository}:{reference.tag}"
        self.config = place / "work/manifest.json"
        self.config.parent.mkdir()
        document = {
            "x_base_manifest": str(QUICKSTART),
            "runtime": {"execution": {"vllm_image": self.name}, "network_policy": "online_allowed"},
            "artifacts": {"lockfile": str(self.lock)},
        }
        self.config.write_text(json.dumps(document))

    @property
    def lock(self) -> Path:
        return self.place / "lock.json"

    def asks(self, mode: str, keys: str = TRUSTED) -> None:
        self.settings.write_text(f'image-trust = "{mode}"\n{keys}')

    def does(self, *words: str, store: str = "store") -> Outcome:
        return call(["--store", str(self.place / store), *words])

    def realises(self, target: str = "#image", *words: str) -> Outcome:
        return self.does("realize", f"{self.config}{target}", *words)

    def image(self) -> str:
        (found,) = self.does("image", "ls", "--json").document["images"]
        return str(found["object"])


@pytest.fixture
def user(tmp_path: Path, published: Published, monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "personal"))
    # A check that is passed is told from one that is not: behind it there is no Docker.
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    yield User(tmp_path, published)
    make_writable(tmp_path / "store")


def refused(outcome: Outcome) -> None:
    outcome.check_one_block()
    assert outcome.code == 4, outcome.err
    assert "nobody that you trust vouches for the image" in outcome.err


def test_a_tag_is_not_locked_to_an_image_that_nobody_vouches_for(user: User) -> None:
    user.asks("require")
    refused(user.does("lock", str(user.config)))
    refused(user.does("lock", str(user.config), "--no-fetch"))
    assert not user.lock.exists()
    assert list((user.place / "store/objects").glob("*/*")) == []
    user.asks("warn")
    warned = user.does("lock", str(user.config), "--no-fetch")
    assert warned.code == 0
    assert f"warning: nobody vouches for {user.name}" in warned.err
    assert user.lock.exists()


def test_a_realisation_takes_what_is_vouched_for_and_is_refused_when_trust_is_gone(
    user: User,
) -> None:
    user.published.say(attestation(user.published.image["digest"]))
    user.asks("require")
    assert user.does("lock", str(user.config)).code == 0
    first = user.realises()
    assert first.code == 0, first.err
    assert "is vouched for by alice" in user.realises().err
    # The plan is remembered now, and with nobody to ask for it is recalled.
    user.asks("off")
    assert user.realises().code == 0
    user.asks("require", keys="")
    refused(user.realises())
    user.asks("warn", keys="")
    assert "warning: nobody vouches" in user.realises().err


def test_a_lock_that_is_made_on_the_way_is_refused_before_anything_is_read(user: User) -> None:
    digest = user.published.image["digest"]
    pinned = f"{user.name.rpartition(':')[0]}@{digest}"
    user.asks("require")
    refused(user.realises("#image", "--set", f"{FIELD}={pinned}"))
    assert list((user.place / "store/objects").glob("*/*")) == []


def test_an_attestation_of_the_locked_image_lets_no_other_one_in(user: User) -> None:
    user.published.say(attestation(user.published.image["digest"]))
    assert user.does("lock", str(user.config)).code == 0
    good = Lock.decode(user.lock.read_bytes(), name="the lock")
    layout = LayoutMaker(user.place / "evil")
    layout.finish(layout.image([tar_of({"evil": b"!"})]))
    evil = load_manifest(
        QUICKSTART, [f"{FIELD}=localhost/evil", f"{FIELD}_path={layout.directory}"]
    )
    # As by `dis store import`: the store has it already.
    with Store.open(user.place / "store") as store:
        files = resolve_lock(evil, store, previous=None).files_of("runtime.image")
    others = [each for each in good.artifacts if each.name != "runtime.image"]
    retrieval = good.files_of("runtime.image")[0].retrieval
    forged = replace(
        good, artifacts=(*others, *(replace(each, retrieval=retrieval) for each in files))
    )
    user.lock.write_bytes(forged.encode())
    user.asks("require")
    outcome = user.realises()
    outcome.check_one_block()
    assert outcome.code == 4
    assert "contradicts itself about the files of its image" in outcome.err


def test_an_image_is_loaded_only_if_somebody_vouches_for_it_where_its_name_leads(
    user: User,
) -> None:
    assert user.does("lock", str(user.config)).code == 0
    assert user.realises().code == 0
    image = user.image()
    assert user.does("image", "load", image).code == 5
    user.asks("require")
    unnamed = user.does("image", "load", image)
    refused(unnamed)
    assert "it is not known which registry it is from" in unnamed.err
    assert "--image NAME" in unnamed.err
    refused(user.does("image", "load", image, "--image", user.name))
    user.published.say(attestation(user.published.image["digest"]))
    loaded = user.does("image", "load", image, "--image", user.name)
    assert loaded.code == 5
    assert "no Docker engine answers" in loaded.err
    user.asks("warn", keys="")
    assert "warning: nobody vouches" in user.does("image", "load", image).err


@pytest.mark.slow
def test_the_runs_in_a_store_say_which_registry_an_image_is_from(user: User) -> None:
    user.published.say(attestation(user.published.image["digest"]))
    assert user.does("lock", str(user.config)).code == 0
    few = ("--set", "inference.n_prompts=1", "--set", SHORTER)
    assert user.realises("", *few).code == 0
    user.asks("require")
    loaded = user.does("image", "load", user.image())
    assert loaded.code == 5, loaded.err
    assert "no Docker engine answers" in loaded.err
    user.asks("require", keys="")
    refused(user.does("image", "load", user.image()))
