"""`dis realize`: paths on stdout, talk on stderr, and answers as exit codes."""

import json
import shutil
from pathlib import Path

import pytest

from command_line import SHORTER, Dis, Realised

LIMITS = ("--set", "inference.n_prompts=2", "--set", SHORTER)


def test_the_store_path_of_the_bundle_is_all_that_is_on_stdout(
    dis: Dis, realised: Realised
) -> None:
    outcome = dis("realize", realised.config, *LIMITS)
    assert (outcome.code, outcome.out) == (0, f"{realised.first}\n")
    assert (Path(realised.first) / "bundle.json").is_file()
    assert outcome.err == ""


def test_config_may_be_an_option(dis: Dis, realised: Realised) -> None:
    assert dis("realize", "--config", realised.config, *LIMITS).out == f"{realised.first}\n"


def test_json_has_the_stated_fields(dis: Dis, realised: Realised) -> None:
    document = dis("realize", realised.config, *LIMITS, "--json").document
    assert set(document) == {
        "schema_version", "target", "derivation", "cached", "outputs", "roots", "rebuilds",
        "artifact_digests_verified",
    }  # fmt: skip
    assert (document["target"], document["cached"], document["rebuilds"]) == ("run", True, [])
    assert set(document["outputs"]) == {"bundle", "log"}
    assert document["outputs"]["bundle"] == {
        "digest": Path(realised.first).name,
        "path": realised.first,
    }
    assert len(document["derivation"]) == 64
    assert document["roots"] == [f"quickstart.{Path(realised.first).name[:8]}"]


def test_a_target_other_than_the_run(dis: Dis, own_store: Realised, tmp_path: Path) -> None:
    outcome = dis(
        "realize", f"{own_store.config}#closure", *LIMITS, "--out-link", tmp_path / "result"
    )
    assert outcome.code == 0
    assert (tmp_path / "result" / "closure.json").is_file()
    assert (tmp_path / "result").resolve() == Path(outcome.out.strip()).resolve()


def test_a_target_without_a_root_is_said_to_be_unprotected(dis: Dis, own_store: Realised) -> None:
    outcome = dis("realize", f"{own_store.config}#requests", *LIMITS)
    assert outcome.code == 0
    assert "no root keeps the result" in outcome.err
    assert dis("realize", f"{own_store.config}#requests", *LIMITS, "--quiet").err == ""


def test_a_dry_run_says_what_would_be_built_and_builds_nothing(
    dis: Dis, realised: Realised
) -> None:
    outcome = dis("realize", realised.config, "--set", "inference.n_prompts=3", "--dry-run")
    assert outcome.code == 0
    assert "3 builds would be made" in outcome.out
    assert dis("realize", realised.config, *LIMITS, "--dry-run").out == "nothing would be built\n"
    document = dis("realize", realised.config, "--dry-run", "--json", *LIMITS).document
    assert (document["dry_run"], document["locks"], document["builds"]) == (True, False, [])


def test_a_dry_run_without_a_lock_says_that_it_would_lock(
    dis: Dis, quickstart: Path, tmp_path: Path
) -> None:
    lock = tmp_path / "none.json"
    outcome = dis("realize", quickstart, "--dry-run", "--set", f"artifacts.lockfile={lock}")
    assert "would be locked first" in outcome.out
    assert not lock.exists()


def test_locked_refuses_a_manifest_without_a_lock(
    dis: Dis, quickstart: Path, tmp_path: Path
) -> None:
    lock = tmp_path / "none.json"
    outcome = dis("realize", quickstart, "--locked", "--set", f"artifacts.lockfile={lock}")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "--locked" in outcome.err


def test_a_rebuild_that_is_identical_says_how_many_builds_agree(
    dis: Dis, own_store: Realised
) -> None:
    outcome = dis("realize", "--rebuild", own_store.config, *LIMITS)
    assert (outcome.code, outcome.out) == (0, f"{own_store.path_of('first')}\n")
    assert "2 of 2 builds of quickstart-generation" in outcome.err
    document = dis("realize", own_store.config, *LIMITS, "--rebuild=2", "--json").document
    assert [rebuild["identical"] for rebuild in document["rebuilds"]] == [True, True]
    assert document["reproductions"]["builds"] == document["reproductions"]["identical"] == 4


def test_a_rebuild_that_differs_is_1_and_keeps_and_compares_everything(
    dis: Dis, own_store: Realised, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_the_engine_answer_otherwise(monkeypatch)
    outcome = dis("realize", own_store.config, *LIMITS, "--rebuild")
    assert (outcome.code, outcome.out) == (1, f"{own_store.path_of('first')}\n")
    assert "Results: DIFFERENT" in outcome.err
    assert "1 of 2 builds of quickstart-generation has the bits" in outcome.err
    assert "Traceback" not in outcome.err
    outcome = dis("realize", own_store.config, *LIMITS, "--rebuild", "--json")
    (rebuild,) = outcome.document["rebuilds"]
    assert (outcome.code, rebuild["identical"], rebuild["differing"]) == (1, False, ["results"])
    assert rebuild["diff"]["same"] is False
    assert Path(rebuild["outputs"]["results"]["path"]).is_dir()


def make_the_engine_answer_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for an engine whose arithmetic does not repeat."""
    from dis_derivations.builders import recorded_generation

    honest = recorded_generation._tokens_document

    def altered(sequences: list[object]) -> bytes:
        document = json.loads(honest(sequences))  # type: ignore[arg-type]
        document["sequences"][0]["output_token_ids"][0] += 1
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    monkeypatch.setattr(recorded_generation, "_tokens_document", altered)


@pytest.mark.parametrize("name", ["a/b", "-x", ".hidden", "x.json", ""])
def test_a_bad_root_name_is_refused_before_anything_is_built(
    dis: Dis, realised: Realised, name: str
) -> None:
    outcome = dis("realize", realised.config, "--set", "inference.n_prompts=3", f"--name={name}")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "building" not in outcome.err


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["missing.json"], 2),
        (["{config}#nothing"], 2),
        (["{config}#"], 2),
        ([f"{'a' * 5000}#run"], 2),
        (["/dev/zero"], 2),
        (["{config}", "--set", "inference.n_prompts"], 2),
        (["{config}", "--set", "inference.n_promtps=1"], 2),
        (["{config}", "--set", "runtime.execution.backend=vllm"], 5),
    ],
)
def test_bad_input_is_one_block(dis: Dis, realised: Realised, argv: list[str], code: int) -> None:
    outcome = dis("realize", *[part.format(config=realised.config) for part in argv])
    outcome.check_one_block()
    assert (outcome.code, outcome.out) == (code, "")


def test_a_manifest_that_is_no_manifest_is_one_block(dis: Dis, tmp_path: Path) -> None:
    for text in ("{", "[]", '{"a":1,"a":2}', "{}", "\ufeff{}"):
        (tmp_path / "bad.json").write_text(text, encoding="utf-8")
        outcome = dis("realize", "bad.json")
        outcome.check_one_block()
        assert outcome.code == 2


def test_a_first_realisation_tells_of_the_lock_and_of_each_build(
    dis: Dis, quickstart: Path, tmp_path: Path
) -> None:
    for name in ("quickstart.json", "quickstart"):
        source = quickstart.parent / name
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, tmp_path / name)
    outcome = dis("realize", "quickstart.json", *LIMITS)
    assert outcome.code == 0
    assert "there is no lock yet: locked" in outcome.err
    assert (tmp_path / "quickstart.lock.json").is_file()
    assert "quickstart-generation: building\n" in outcome.err
    assert "quickstart-generation: built in " in outcome.err
