"""Python packages of a manifest: locked with all that they need, realised, checked, moved, left out."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import Dis, Outcome
from dis_derivations.environments.launch import environment_command
from dis_store.digest import Sha256
from package_wheels import write_package
from run_shelf import make_writable
from simple_index import SimpleIndex, pip_settings, simple_index
from wheels import use_index

SERIES = f"{sys.version_info[0]}.{sys.version_info[1]}"
Ask = Callable[..., Outcome]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that pip takes for the only index there is: `app` needs `base`, and `extra` with `deep`."""
    place = tmp_path / "index"
    use_index(monkeypatch, place)
    write_package(place, "app", requires=["base>=1", "extra", "never; python_version < '3'"])
    write_package(place, "base", "1.0")
    write_package(place, "extra", requires=["deep"])
    write_package(place, "deep")
    return place


@pytest.fixture
def ask(dis: Dis, quickstart: Path, tmp_path: Path) -> Ask:
    """Return a command about a manifest with packages, its lock in the test's own directory."""

    def call(
        verb: str,
        *argv: str,
        packages: list[Mapping[str, Any]] | None = None,
        target: str = "",
        **python: Any,
    ) -> Outcome:
        chosen = [{"name": "app"}] if packages is None else packages
        listed = [{"source": {"type": "wheel"}, **each} for each in chosen]
        stack = {"version": SERIES, "packages": listed, **python}
        return dis(
            *verb.split(),
            f"{quickstart}{target}",
            *argv,
            "--set",
            f"software_stack.python={json.dumps(stack)}",
            "--set",
            f"artifacts.lockfile={tmp_path / 'lock.json'}",
        )

    return call


def locked(tmp_path: Path) -> dict[str, dict[str, Any]]:
    lock = json.loads((tmp_path / "lock.json").read_bytes())
    return {
        each["name"].removeprefix("python.package."): each
        for each in lock["artifacts"]
        if each["name"].startswith("python.package.")
    }


def versions(tmp_path: Path) -> dict[str, str]:
    return {name: each["path"].split("-")[1] for name, each in locked(tmp_path).items()}


def test_a_name_is_locked_with_all_that_it_needs(ask: Ask, index: Path, tmp_path: Path) -> None:
    assert ask("lock").code == 0
    found = locked(tmp_path)
    assert versions(tmp_path) == {"app": "1.0", "base": "1.0", "deep": "1.0", "extra": "1.0"}
    for each in found.values():
        wheel = (index / each["path"]).read_bytes()
        assert (each["digest"], each["size"]) == (Sha256.of(wheel), len(wheel))
        assert each["digest_source"] == "computed"
        assert each["retrieval"]["type"] == "wheel"


def test_locking_again_asks_nobody_and_changes_nothing(
    ask: Ask, index: Path, tmp_path: Path
) -> None:
    ask("lock")
    before = (tmp_path / "lock.json").read_bytes()
    shutil.rmtree(index)
    assert ask("lock").code == 0
    assert (tmp_path / "lock.json").read_bytes() == before


def test_what_is_excluded_is_left_out_with_what_only_it_needs(
    ask: Ask, index: Path, tmp_path: Path
) -> None:
    assert ask("lock", exclude=["Extra"]).code == 0
    assert set(locked(tmp_path)) == {"app", "base"}


@pytest.mark.slow
def test_a_changed_request_makes_the_lock_stale_and_other_packages_stay(
    ask: Ask, index: Path, tmp_path: Path
) -> None:
    ask("lock")
    write_package(index, "base", "1.5")
    write_package(index, "deep", "1.5")
    refused = ask(
        "realize", "--locked", packages=[{"name": "app"}, {"name": "deep", "version": "1.5"}]
    )
    assert refused.code == 2
    assert "the lock is stale for python.packages" in refused.err
    assert ask("lock", packages=[{"name": "app"}, {"name": "deep", "version": "1.5"}]).code == 0
    assert versions(tmp_path) == {"app": "1.0", "base": "1.0", "deep": "1.5", "extra": "1.0"}


@pytest.mark.slow
def test_check_tells_what_would_move_and_update_moves_that_alone(
    ask: Ask, index: Path, tmp_path: Path
) -> None:
    ask("lock")
    assert ask("lock", "--check").code == 0
    write_package(index, "base", "2.0")
    write_package(index, "deep", "2.0")
    before = (tmp_path / "lock.json").read_bytes()
    check = ask("lock", "--check", "--json")
    assert check.code == 1
    found = {each["name"]: each["message"] for each in check.document["findings"]}
    assert found == {
        "python.package.base": "it would be base-2.0-py3-none-any.whl today",
        "python.package.deep": "it would be deep-2.0-py3-none-any.whl today",
    }
    assert (tmp_path / "lock.json").read_bytes() == before
    assert ask("lock", "--update", "python.package.base").code == 0
    assert versions(tmp_path) == {"app": "1.0", "base": "2.0", "deep": "1.0", "extra": "1.0"}
    assert ask("lock", "--update", "python.packages").code == 0
    assert versions(tmp_path)["deep"] == "2.0"
    assert ask("lock", "--update", "python.package.gone").code == 2


@pytest.mark.slow
def test_a_wheel_that_was_pushed_again_is_told_and_not_taken(
    ask: Ask, dis: Dis, index: Path, tmp_path: Path
) -> None:
    ask("lock")
    before = locked(tmp_path)["deep"]["digest"]
    write_package(index, "deep", files={"deep.py": b"EVIL = True\n"})
    check = ask("lock", "--check", "--json")
    assert (check.code, check.document["findings"][0]["name"]) == (1, "python.package.deep")
    outcome = ask("realize", "--store", str(tmp_path / "other"), target="#environment")
    assert outcome.code == 4
    digests = {Sha256.of((index / "deep-1.0-py3-none-any.whl").read_bytes()), before}
    assert all(digest in outcome.err for digest in digests)
    outcome.check_one_block()
    make_writable(tmp_path / "other")


def test_a_declared_digest_must_be_the_wheels(ask: Ask, index: Path) -> None:
    wrong = ask(
        "lock",
        packages=[{"name": "deep", "source": {"type": "wheel", "digest": f"sha256:{'ab' * 32}"}}],
    )
    assert wrong.code == 4
    assert "declared sha256:abab" in wrong.err
    wrong.check_one_block()
    digest = Sha256.of((index / "deep-1.0-py3-none-any.whl").read_bytes())
    assert (
        ask("lock", packages=[{"name": "deep", "source": {"type": "wheel", "digest": digest}}]).code
        == 0
    )


@pytest.mark.parametrize(
    ("package", "python", "said"),
    [
        ({"name": "app", "source": {"type": "git"}}, {}, "only wheels are taken"),
        ({"name": "app", "source": {"type": "wheel", "url": "https://x"}}, {}, "no other address"),
        ({"name": "--index-url=x"}, {}, "is not the name of a package"),
        ({"name": "app", "version": ">=1"}, {}, "is not one version of a package"),
        ({"name": "app"}, {"version": "three"}, "no version such as 3.11"),
        ({"name": "app"}, {"exclude": ["app"]}, "listed among the packages, too"),
        ({"name": "app"}, {"exclude": ["a b"]}, "is not the name of a package"),
        ({"name": "app", "source": {"type": "wheel", "digest": "sha256:unset"}}, {}, "is unset"),
    ],
)
def test_what_cannot_be_locked_is_refused_before_pip_is_asked(
    ask: Ask,
    index: Path,
    tmp_path: Path,
    package: dict[str, Any],
    python: dict[str, Any],
    said: str,
) -> None:
    outcome = ask("lock", packages=[package], **python)
    assert outcome.code == 2
    assert said in outcome.err
    outcome.check_one_block()
    assert not (tmp_path / "lock.json").exists()


def test_what_was_refused_is_locked_when_it_is_mended(
    ask: Ask, index: Path, tmp_path: Path
) -> None:
    assert ask("lock", packages=[{"name": "deep", "version": ">=1"}]).code == 2
    assert ask("lock", packages=[{"name": "deep", "version": "1.0"}]).code == 0
    assert versions(tmp_path) == {"deep": "1.0"}


def test_packages_that_do_not_go_together_are_told_in_pips_words(ask: Ask, index: Path) -> None:
    write_package(index, "picky", requires=["base<1"])
    outcome = ask("lock", packages=[{"name": "app"}, {"name": "picky"}])
    assert outcome.code == 3
    assert "cannot be resolved for Python" in outcome.err
    outcome.check_one_block()
    assert ask("lock", "--dry-run").code == 0


def test_a_version_of_python_that_is_not_here_is_named(ask: Ask, index: Path) -> None:
    outcome = ask("lock", version="3.99")
    assert outcome.code == 5
    assert "there is no Python 3.99" in outcome.err


def test_a_dry_run_lists_the_wheels_and_fetches_none(ask: Ask, index: Path, tmp_path: Path) -> None:
    document = ask("lock", "--dry-run", "--json").document
    names = {each["name"] for each in document["reads"]}
    assert {"python.package.app", "python.package.deep"} <= names
    assert not (tmp_path / "lock.json").exists()


def test_the_environment_is_an_input_of_the_closure_and_of_nothing_without_packages(
    ask: Ask, index: Path
) -> None:
    ask("lock")
    (closure,) = json.loads(ask("show-derivation", target="#closure").out).values()
    derivations = json.loads(ask("show-derivation", "-r", target="#closure").out)
    environment = derivations[closure["inputs"]["environment"]["derivation"]]
    assert environment["builder"] == "environment"
    assert environment["args"] == {"python": SERIES}
    assert set(environment["inputs"]) == {
        f"wheel-{name}" for name in ("app", "base", "deep", "extra")
    }
    for each in environment["inputs"].values():
        assert derivations[each["derivation"]]["builder"] == "files"


@pytest.mark.slow
def test_the_environment_is_equal_in_every_store_and_shown(
    ask: Ask, dis: Dis, index: Path, tmp_path: Path
) -> None:
    stores = [tmp_path / "a", tmp_path / "b"]
    paths = [
        Path(ask("realize", "--store", str(store), target="#environment").out.strip())
        for store in stores
    ]
    assert paths[0].name == paths[1].name
    shown = dis("environment", "show", paths[0].name, "--store", stores[0], "--json")
    assert [each["name"] for each in shown.document["packages"]] == ["app", "base", "deep", "extra"]
    assert shown.document["object"] == paths[0].name
    for store in stores:
        make_writable(store)


def test_a_run_with_packages_is_realised_and_its_closure_has_the_environment(
    ask: Ask, dis: Dis, index: Path, tmp_path: Path
) -> None:
    store = tmp_path / "own"
    few = ["--set", "inference.n_prompts=1", "--store", str(store)]
    deep = [{"name": "deep"}]
    assert ask("realize", *few, packages=deep).code == 0
    closure = Path(ask("realize", *few, packages=deep, target="#closure").out.strip())
    assert (closure / "environment" / "site-packages" / "deep.py").is_file()
    shown = dis("environment", "show", closure.name, "--store", store)
    assert "deep" in shown.out
    make_writable(store)


# Over HTTP


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleIndex]:
    """An index over HTTP, the only one that pip knows: `app` needs `base`, and both have 60 kB."""
    for name in ("PIP_NO_INDEX", "PIP_NO_BINARY", "PIP_ONLY_BINARY"):
        monkeypatch.delenv(name, raising=False)
    with simple_index() as running:
        for name, requires in (("app", ["base"]), ("base", [])):
            files = {f"{name}.txt": os.urandom(60_000)}
            running.add(write_package(tmp_path / "wheels", name, files=files, requires=requires))
        for variable, value in pip_settings(running.url).items():
            monkeypatch.setenv(variable, value)
        yield running


def test_no_fetch_takes_the_digests_that_the_index_tells_and_no_byte_of_a_wheel(
    ask: Ask, served: SimpleIndex, tmp_path: Path
) -> None:
    outcome = ask("lock", "--no-fetch")
    assert outcome.code == 0, outcome.err
    assert served.sent == 0
    assert "GET" not in served.wheel_requests
    published = locked(tmp_path)
    for each in published.values():
        wheel = (tmp_path / "wheels" / each["path"]).read_bytes()
        assert (each["digest"], each["size"]) == (Sha256.of(wheel), len(wheel))
        assert each["digest_source"] == "published"
    (tmp_path / "lock.json").rename(tmp_path / "published.json")
    assert ask("lock").code == 0
    assert served.sent == sum(each["size"] for each in published.values())
    fetched = locked(tmp_path)
    assert {name: each["digest"] for name, each in fetched.items()} == {
        name: each["digest"] for name, each in published.items()
    }


@pytest.mark.slow
def test_no_fetch_fetches_a_wheel_whose_digest_nobody_tells(
    ask: Ask, served: SimpleIndex, tmp_path: Path
) -> None:
    served.add(tmp_path / "wheels/base-1.0-py3-none-any.whl", digest=False)
    assert ask("lock", "--no-fetch").code == 0
    sources = {name: each["digest_source"] for name, each in locked(tmp_path).items()}
    assert sources == {"app": "published", "base": "computed"}
    assert served.sent == locked(tmp_path)["base"]["size"]


@pytest.mark.slow
def test_a_wheel_that_is_another_one_than_was_published_is_refused_when_it_comes(
    ask: Ask, served: SimpleIndex, tmp_path: Path
) -> None:
    assert ask("lock", "--no-fetch").code == 0
    wheel = tmp_path / "wheels/base-1.0-py3-none-any.whl"
    evil = wheel.read_bytes()[:-1] + b"!"
    served.add(wheel, data=evil)
    outcome = ask("realize", target="#environment")
    assert outcome.code == 4
    outcome.check_one_block()
    assert Sha256.of(wheel.read_bytes()) in outcome.err
    assert Sha256.of(evil) in outcome.err


def test_an_object_that_is_no_environment_is_refused(realised: Any, dis: Dis) -> None:
    outcome = dis("environment", "show", "first")
    assert outcome.code == 2
    assert "is no Python environment" in outcome.err


def test_an_environment_on_this_machine_is_shown_with_its_digest_or_its_faults(
    dis: Dis, tmp_path: Path
) -> None:
    outcome = dis("environment", "show", sys.executable, "--json")
    document = outcome.document
    assert document["interpreter"]["python"].endswith(".".join(map(str, sys.version_info[:3])))
    assert (outcome.code == 0) == (document["digest"] is not None) == (not document["faults"])
    assert dis("environment", "show", tmp_path / "gone").code == 2


@pytest.mark.slow
def test_no_secret_of_an_index_gets_into_a_lock_or_a_message(
    ask: Ask, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv(
        "PIP_INDEX_URL", "http://me:canary-secret@127.0.0.1:9/simple?token=canary-secret"
    )
    monkeypatch.setenv("PIP_RETRIES", "0")
    outcome = ask("lock", packages=[{"name": "nowhere"}])
    assert outcome.code == 3
    assert "canary-secret" not in outcome.err
    assert ask("lock").code == 0
    assert "canary-secret" not in (tmp_path / "lock.json").read_text()


@pytest.mark.slow
def test_a_package_of_the_real_index_is_locked_built_and_imported(ask: Ask, tmp_path: Path) -> None:
    listed = [{"name": "packaging", "version": "24.2"}]
    assert ask("lock", packages=listed).code == 0
    wheel = locked(tmp_path)["packaging"]
    assert wheel["digest"] == (
        "sha256:09abb1bccd265c01f4a3aa3f7a7db064b36514d2cba19a2f694fe6150451a759"
    )
    store = tmp_path / "own"
    outcome = ask("realize", "--store", str(store), packages=listed, target="#environment")
    environment = Path(outcome.out.strip())
    argv, variables = environment_command(
        environment, Path(sys.executable), ["-m", "packaging.tags"]
    )
    subprocess.run(argv, env=variables, check=True, capture_output=True)
    make_writable(store)
