"""`dis challenge` with registries: what builders who never met say of one manifest, by a real registry."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from command_line import Outcome, call
from real_registry import RealRegistry, running_registry
from tiny_runs import write_manifest


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing in the environment say what the homes of builders do not."""
    for name in [each for each in os.environ if each.startswith(("DIS_", "XDG_", "DOCKER_"))]:
        monkeypatch.delenv(name)


class Builder:
    """Somebody with a home, a store and a key of their own."""

    def __init__(self, name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = name
        self.home = directory / name
        self.home.mkdir()
        self._monkeypatch = monkeypatch

    def dis(self, *arguments: object) -> Outcome:
        self._monkeypatch.setenv("HOME", str(self.home))
        return call([*map(str, arguments), "--store", str(self.home / "store")])

    def ok(self, *arguments: object) -> Outcome:
        outcome = self.dis(*arguments)
        assert outcome.code == 0, outcome.err
        return outcome

    def build(self, config: Path) -> None:
        self.ok("realize", config, "--name", "mine", "-q")
        self.ok("key", "generate", self.name)

    def vouch(self, place: str) -> None:
        self.ok("sign", "mine")
        self.ok("push", "mine", place, "-q")

    def trust(self, *others: "Builder") -> None:
        path = self.home / ".config" / "dis" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "".join(each.ok("key", "show", each.name, "--setting").out for each in others)
        )


@dataclass(frozen=True)
class World:
    """Three who built one manifest, of whom one got something else, and where they pushed it."""

    config: Path
    farm: Builder
    lab: Builder
    odd: Builder
    unsigned: str


@pytest.fixture(scope="module")
def world(registry: RealRegistry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from dis_derivations.engines.reference import engine

    directory = tmp_path_factory.mktemp("world")
    config = write_manifest(directory / "work")
    with pytest.MonkeyPatch.context() as patch:
        without_settings(patch)
        farm, lab, odd = (Builder(name, directory, patch) for name in ("farm", "lab", "odd"))
        farm.build(config)
        unsigned = registry.reference("unsigned")
        farm.ok("push", "mine", f"{unsigned}:one")
        lab.build(config)
        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(engine, "choose_token", lambda *_: 3)
            odd.build(config)
        for builder in (farm, lab, odd):
            builder.vouch(f"{registry.reference(builder.name)}:one")
        odd.vouch(f"{registry.reference('farm')}:two")
        yield World(config, farm, lab, odd, unsigned)


@pytest.fixture
def me(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    """Return somebody who has built nothing."""
    without_settings(monkeypatch)
    return Builder("me", tmp_path, monkeypatch)


def verdicts(outcome: Outcome) -> dict[str, str]:
    return {each["builder"]: each["verdict"] for each in outcome.document["derivations"]}


def test_builders_who_got_the_same_agree_and_nothing_that_was_built_is_fetched(
    registry: RealRegistry, world: World, me: Builder
) -> None:
    places = [registry.reference(name) for name in ("farm", "lab")]
    me.trust(world.farm, world.lab)
    before = len(registry.requests())

    both = me.ok("challenge", world.config, *places, "--json")

    assert set(verdicts(both).values()) == {"agree"}
    assert len(verdicts(both)) == 4
    names = {
        builder["name"]
        for each in both.document["derivations"]
        for answer in each["answers"]
        for builder in answer["builders"]
    }
    assert names == {"farm", "lab"}
    # Documents alone came, each of a few kilobytes.
    asked = {
        line.split()[1].split("/")[-1] for line in registry.requests()[before:] if "blobs" in line
    }
    assert asked
    assert sum(registry.blob_path(each).stat().st_size for each in asked) < 200_000
    assert me.ok("store", "stats", "--json").document["objects"] == 0
    named = me.ok("challenge", "--config", world.config, *places)
    assert named.out.count("agree: ") == 4


def test_a_builder_who_got_something_else_is_named_with_what_differs(
    registry: RealRegistry, world: World, me: Builder
) -> None:
    place = registry.reference("farm")
    me.trust(world.farm, world.odd)

    outcome = me.dis("challenge", world.config, place)

    assert outcome.code == 1, outcome.out + outcome.err
    assert "disagree: tiny-generation (results differ)" in outcome.out
    found = me.dis("challenge", world.config, place, "--json").document["derivations"]
    generation = next(each for each in found if each["builder"] == "tiny-generation")
    answers = [[each["name"] for each in answer["builders"]] for answer in generation["answers"]]
    assert sorted(answers) == [["farm"], ["odd"]]
    assert next(each for each in found if each["builder"] == "tiny-requests")["verdict"] == "agree"


def test_of_what_nobody_else_built_or_signed_nothing_is_known(
    registry: RealRegistry, world: World, me: Builder
) -> None:
    me.trust(world.farm)

    unsigned = me.dis("challenge", world.config, world.unsigned)

    assert unsigned.code == 5
    assert "not heard: 4 documents of a build in a registry that nobody signed" in unsigned.out
    both = (registry.reference("farm"), registry.reference("lab"))
    single = me.dis("challenge", world.config, *both, "--json")
    assert single.code == 5
    assert set(verdicts(single).values()) == {"unknown"}
    assert "signed by a key that is neither trusted nor here" in single.document["unheard"]
    # Who built it as well is the second one.
    world.lab.trust(world.farm)
    world.lab.ok("challenge", world.config, registry.reference("farm"))


@pytest.mark.parametrize(
    ("place", "code"),
    [("localhost/x", 2), ("oci://localhost/../x", 2), ("oci://{}/nothing/there", 3)],
)
def test_a_repository_that_cannot_be_asked_is_said_in_one_block(
    registry: RealRegistry, world: World, me: Builder, place: str, code: int
) -> None:
    outcome = me.dis("challenge", world.config, place.format(registry.host))

    assert outcome.code == code, outcome.out + outcome.err
    outcome.check_one_block()


def test_a_registry_that_cannot_be_reached_is_not_said_to_have_sent_anything(
    world: World, me: Builder
) -> None:
    outcome = me.dis("challenge", world.config, "oci://127.0.0.1:9/runs")

    assert outcome.code == 3, outcome.out + outcome.err
    outcome.check_one_block()
    assert "cannot be reached" in outcome.err
    assert "see whether its name and port are right" in outcome.err
    assert "arrived" not in outcome.err
