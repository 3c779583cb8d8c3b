"""Pushing, pulling and building from a registry, by the command, as two machines would."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Outcome, call
from real_registry import RealRegistry, Settings, running_registry
from tiny_runs import write_manifest

PASSWORD = "canary: a pass word"  # noqa: S105 - of a registry that lives for a test


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the user a home of their own, without settings and passwords."""
    path = tmp_path / "home"
    path.mkdir()
    for name in [each for each in os.environ if each.startswith(("DIS_", "XDG_", "DOCKER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(path))
    return path


class Machine:
    """A store, and the command that works with it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def dis(self, *arguments: object) -> Outcome:
        return call([*map(str, arguments), "--store", str(self.path)])

    def ok(self, *arguments: object) -> Outcome:
        outcome = self.dis(*arguments)
        assert outcome.code == 0, outcome.err
        return outcome


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_manifest(tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, config: Path) -> Machine:
    machine = Machine(tmp_path_factory.mktemp("first") / "store")
    machine.ok("realize", config, "--name", "first", "-q")
    return machine


@pytest.fixture
def second(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "second")


def test_a_run_goes_to_another_machine_and_nothing_is_built_there(
    registry: RealRegistry,
    first: Machine,
    second: Machine,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = registry.reference("runs:first")
    pushed = first.ok("push", "first", place, "--json").document
    pinned = first.ok("push", "first", place).out.strip()
    assert pinned == pushed["reference"] == f"{place}@{pushed['digest']}"
    assert pushed["sent_bytes"] == pushed["bytes"] > 0
    assert first.ok("push", "first", place, "--json").document["sent_bytes"] == 0
    monkeypatch.setenv("DIS_TRUST", "off")

    pulled = second.ok("pull", pinned, "--name", "mine", "--json").document

    assert pulled["refused"] == []
    assert pulled["root"] == "mine"
    original = first.ok("realize", config, "--json").document["outputs"]["bundle"]["digest"]
    realised = second.ok("realize", config, "--json").document
    assert realised["cached"]
    assert realised["outputs"]["bundle"]["digest"] == original == pulled["object"]
    assert second.ok("realize", config, "--rebuild", "--json").document["rebuilds"][0]["identical"]
    assert second.ok("show", "mine").out == first.ok("show", "first").out


def test_a_manifest_is_realised_from_a_registry_that_the_settings_name(
    registry: RealRegistry,
    first: Machine,
    second: Machine,
    config: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first.ok("push", "first", registry.reference("cache:first"))
    (home / ".config" / "dis").mkdir(parents=True)
    settings = f'substituters = ["{registry.reference("cache")}"]\ntrust = "off"\n'
    (home / ".config" / "dis" / "config.toml").write_text(settings, "utf-8")

    realised = second.ok("realize", config, "--json", "--progress", "plain")

    assert realised.document["cached"]
    assert "8 of 8 builds came from a registry" in realised.err
    monkeypatch.setenv("DIS_TRUST", "require")
    third = Machine(second.path.with_name("third"))
    assert not third.ok("realize", config, "--json").document["cached"]
    fourth = Machine(second.path.with_name("fourth"))
    assert not fourth.ok("realize", config, "--no-substitute", "--json").document["cached"]


def test_a_registry_that_cannot_be_asked_costs_a_note_and_no_build(
    second: Machine, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIS_SUBSTITUTERS", "oci://127.0.0.1:9/nowhere")

    outcome = second.ok("realize", config, "--progress", "plain")

    assert "is not asked any more" in outcome.err


def test_what_a_repository_holds_is_listed(registry: RealRegistry, first: Machine) -> None:
    first.ok("push", "first", registry.reference("listed:v1.0"))

    assert first.ok("remote", "ls", registry.reference("listed")).out == (
        registry.reference("listed:v1.0") + "\n"
    )
    text = first.ok("remote", "ls", registry.reference("listed:v1.0")).out
    assert "weights" in text
    parts = first.ok("remote", "ls", registry.reference("listed:v1.0"), "--json").document["parts"]
    assert {"run", "generation", "weights", "tokenizer", "closure", "records"} <= {
        each["name"] for each in parts
    }


def test_dry_runs_say_how_much_and_change_nothing(
    registry: RealRegistry, first: Machine, second: Machine
) -> None:
    place = registry.reference("dry:one")

    look = first.ok("push", "first", place, "--dry-run", "--json").document
    assert look["sent_bytes"] == look["bytes"] > 0
    assert first.dis("remote", "ls", place).code == 3
    first.ok("push", "first", place)
    would = second.ok("pull", place, "--dry-run", "--json").document
    assert would["missing"] == would["objects"] > 0
    assert second.ok("store", "stats", "--json").document["objects"] == 0
    assert "would be fetched" in second.ok("pull", place, "--dry-run").out


def test_one_part_and_the_outputs_alone_are_enough_where_that_is_asked_for(
    registry: RealRegistry, first: Machine, second: Machine
) -> None:
    place = registry.reference("narrow:one")
    first.ok("push", "first", place)
    weights = second.ok("pull", place, "--only", "weights").out.strip()
    assert (Path(weights) / "model.safetensors").is_file()
    narrow = first.ok("push", "first", place.replace("one", "two"), "--outputs-only", "--json")
    whole = first.ok("push", "first", place, "--json")
    assert narrow.document["objects"] < whole.document["objects"]


def test_the_password_of_a_registry_is_tried_stored_used_and_removed(
    tmp_path: Path, first: Machine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(users={"me": PASSWORD})
    with running_registry(tmp_path / "registry", settings) as registry:
        place = registry.reference("private:one")
        refused = first.dis("push", "first", place)
        assert refused.code == 3
        refused.check_one_block()
        assert f"dis login {registry.host}" in refused.err

        said = [login(monkeypatch, registry.host, text) for text in ("wrong", PASSWORD)]
        assert [each.code for each in said] == [3, 0]
        said[0].check_one_block()
        pushed = first.ok("push", "first", place, "--debug")
        assert call(["logout", registry.host]).code == 0
        again = first.dis("push", "first", place, "--debug")
        assert again.code == 3

    for outcome in (*said, pushed, again):
        assert PASSWORD not in outcome.out + outcome.err
        assert "Basic " not in outcome.out + outcome.err
    left = [path.read_text("utf-8", "replace") for path in home.rglob("*") if path.is_file()]
    assert not any(PASSWORD in text for text in left)


def login(monkeypatch: pytest.MonkeyPatch, host: str, password: str) -> Outcome:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.StringIO(password + "\n"))
    return call(["login", host, "--user", "me", "--password-stdin"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("push", "first", "localhost/x:one"), 2),
        (("push", "first", "oci://localhost/x"), 2),
        (("push", "first", "oci://localhost/../x:one"), 2),
        (("push", "nothing-of-this-name", "oci://localhost/x:one"), 2),
        (("push", "first", "oci://127.0.0.1:9/x:one"), 3),
        (("pull", "https://localhost/x"), 2),
        (("pull", "oci://localhost/x@sha256:12"), 2),
        (("pull", "oci://127.0.0.1:9/x:one"), 3),
        (("pull", "oci://127.0.0.1:9/x:one", "--name", "../x"), 2),
        (("remote", "ls", "x"), 2),
        (("login", "https://ghcr.io", "--user", "me", "--password-stdin"), 2),
        (("login", "localhost:5000", "--user", "me"), 2),
        (("logout", "a/b"), 2),
    ],
)
def test_what_cannot_be_done_is_said_in_one_block(
    first: Machine, arguments: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import sys

    from dis_derivations.registry import client
    from dis_derivations.transport.conduct import Conduct

    monkeypatch.setattr(sys, "stdin", io.StringIO("x\n"))
    quick = Conduct(attempts=1, first_delay=0.0)
    monkeypatch.setattr(client, "registry_conduct", lambda: quick)

    outcome = first.dis(*arguments)

    assert outcome.code == code, outcome.err
    outcome.check_one_block()


@pytest.mark.parametrize(
    "text",
    [
        'substituters = "oci://x/y"',
        "substituters = [1]",
        'substituters = ["a b"]',
        'substituters = ["x"]',
    ],
)
def test_settings_that_name_no_registry_are_refused(
    second: Machine, config: Path, home: Path, text: str
) -> None:
    (home / ".config" / "dis").mkdir(parents=True)
    (home / ".config" / "dis" / "config.toml").write_text(text + "\n", "utf-8")

    outcome = second.dis("realize", config)

    assert outcome.code == 2
    outcome.check_one_block()
    assert "substituters" in outcome.err


def test_the_file_of_a_project_may_not_name_registries(
    tmp_path: Path, second: Machine, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dis.toml").write_text('substituters = ["oci://evil.example/x"]\n', "utf-8")
    monkeypatch.chdir(tmp_path)

    outcome = second.dis("realize", config)

    assert outcome.code == 2
    assert "may not set substituters" in outcome.err


def test_the_settings_say_which_registries_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DIS_SUBSTITUTERS", "oci://a.example/x oci://b.example/y")
    shown = call(["config", "show", "--json", "--origin"])

    assert "oci://a.example/x oci://b.example/y" in json.dumps(shown.document)
