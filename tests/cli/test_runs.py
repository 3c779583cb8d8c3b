"""The commands about runs: run, show, list, diff, verify, log, inspect."""

import json
from pathlib import Path

import pytest

from command_line import SHORTER, Dis, Realised

LIMITS = ("--set", "inference.n_prompts=2", "--set", SHORTER)
RUN_FILES = {
    "bundle.json", "manifest.used.json", "lock.used.json", "tokens.json", "run_log.json", "engine.json",
    "logits.safetensors",
}  # fmt: skip


@pytest.fixture
def laid_out(dis: Dis, realised: Realised, tmp_path: Path) -> Path:
    """Return the run directory of the first run."""
    outcome = dis("run", realised.config, *LIMITS, "--run-dir", "laid-out")
    assert outcome.out == "laid-out\n"
    return tmp_path / "laid-out"


def test_run_lays_out_real_files_where_the_manifest_says(
    dis: Dis, realised: Realised, tmp_path: Path
) -> None:
    outcome = dis("run", realised.config, *LIMITS)
    assert outcome.code == 0
    directory = tmp_path / outcome.out.strip()
    assert directory.parent == tmp_path / "runs" / "quickstart"
    assert {path.name for path in directory.iterdir()} == RUN_FILES
    assert not any(path.is_symlink() for path in directory.iterdir())
    run_id = json.loads((directory / "bundle.json").read_bytes())["run_id"]
    assert run_id == f"sha256:{directory.name}"
    assert dis("run", "--config", realised.config, *LIMITS).out == outcome.out


def test_run_copies_tokens_and_run_log_where_it_is_asked_to(
    dis: Dis, realised: Realised, tmp_path: Path
) -> None:
    outcome = dis(
        "run", realised.config, *LIMITS, "--run-dir", "d", "--token-output", "t.json",
        "--run-log-output", "deep/l.json", "--json",
    )  # fmt: skip
    assert (tmp_path / "t.json").read_bytes() == (tmp_path / "d" / "tokens.json").read_bytes()
    assert "records" in json.loads((tmp_path / "deep" / "l.json").read_bytes())
    document = outcome.document
    assert document["directory"] == "d"
    assert document["run_id"].startswith("sha256:")
    assert document["outputs"]["bundle"]["path"] == realised.first


def test_run_refuses_a_directory_with_other_things(
    dis: Dis, realised: Realised, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear", encoding="utf-8")
    outcome = dis("run", realised.config, *LIMITS, "--run-dir", "mine")
    outcome.check_one_block()
    assert outcome.code == 2


def test_run_into_an_unwritable_place_is_an_unfit_environment(dis: Dis, realised: Realised) -> None:
    outcome = dis("run", realised.config, *LIMITS, "--run-dir", "/proc/dis/run")
    outcome.check_one_block()
    assert outcome.code == 5


def test_show_prints_questions_and_answers(dis: Dis, realised: Realised, laid_out: Path) -> None:
    outcome = dis("show", "first")
    assert outcome.code == 0
    assert outcome.out.startswith("[prompt-00000]\nuser: ")
    assert "\nanswer: " in outcome.out
    assert "prompt: " not in outcome.out
    for ref in (realised.first, Path(realised.first).name[:8], laid_out, laid_out / "bundle.json"):
        assert dis("show", ref).out == outcome.out


def test_show_json_has_the_stated_fields(dis: Dis, realised: Realised) -> None:
    document = dis("show", "first", "--json").document
    assert set(document) == {
        "schema_version", "name", "run_id", "grade", "engine", "artifact_digests_verified", "weights", "left_out",
        "kept_until", "exchanges",
    }  # fmt: skip
    assert set(document["exchanges"][0]) == {
        "id", "conversation", "prompt", "answer", "prompt_tokens", "output_tokens",
    }  # fmt: skip
    assert document["exchanges"][0]["output_tokens"] == 4
    assert realised.first


def test_a_run_directory_from_elsewhere_cannot_steer_the_terminal(dis: Dis, laid_out: Path) -> None:
    path = laid_out / "tokens.json"
    document = json.loads(path.read_bytes())
    document["decoded_output_text"][0] = "\x1b[2J\x07gone\u202e"
    path.write_text(json.dumps(document), encoding="utf-8")
    outcome = dis("show", laid_out)
    assert "\\x1b[2J\\x07gone\\u202e" in outcome.out
    assert "\x1b" not in outcome.out


def test_list_has_the_newest_run_first(dis: Dis, realised: Realised) -> None:
    outcome = dis("list")
    names = [line.split()[0] for line in outcome.out.splitlines()]
    assert names == ["NAME", "second", "first"]
    document = dis("list", "--json").document
    assert [run["name"] for run in document] == ["second", "first"]
    assert set(document[0]) == {
        "name", "names", "bundle", "path", "run_id", "model", "date", "engine", "grade",
        "artifact_digests_verified", "size", "problem",
    }  # fmt: skip
    assert document[1]["path"] == realised.first
    assert (document[1]["engine"], document[1]["grade"]) == ("reference", "conformant")


def test_an_empty_store_lists_nothing(dis: Dis) -> None:
    assert (dis("list").code, dis("list").out) == (0, "")
    assert dis("list", "--json").document == []
    assert "no runs" in dis("list").err


def test_diff_of_a_run_with_itself_is_0(dis: Dis, realised: Realised, laid_out: Path) -> None:
    del realised
    outcome = dis("diff", "first", laid_out)
    assert outcome.code == 0
    assert "THE SAME" in outcome.out
    assert dis("diff", "first", "first", "--strict").code == 0


def test_diff_of_different_runs_is_1(dis: Dis, realised: Realised) -> None:
    del realised
    outcome = dis("diff", "first", "second")
    assert (outcome.code, outcome.err) == (1, "")
    assert "DIFFERENT" in outcome.out
    document = dis("diff", "first", "second", "--json").document
    assert (document["same"], document["bundles_identical"]) == (False, False)
    assert document["first_divergence"]["position"] == 2


def test_diff_of_runs_that_differ_in_provenance_alone(dis: Dis, own_store: Realised) -> None:
    described = ("--set", "metadata.description=another", "--name", "third", "--quiet")
    assert dis("realize", own_store.config, *LIMITS, *described).code == 0
    assert dis("diff", "first", "third").code == 0
    strict = dis("diff", "first", "third", "--strict")
    assert strict.code == 1
    assert "--strict" in strict.err


def test_verify_writes_a_report_and_answers_by_exit_code(
    dis: Dis, realised: Realised, laid_out: Path, tmp_path: Path
) -> None:
    del realised
    outcome = dis("verify", "--bundle-a", "first", "--bundle-b", laid_out, "--output-dir", "report")
    assert outcome.code == 0
    assert outcome.out.startswith("Grade: conformant\n")
    report = json.loads((tmp_path / "report" / "verify_report.json").read_bytes())
    assert (report["grade"], report["outputs_identical"]) == ("conformant", True)
    assert (tmp_path / "report" / "verify_summary.txt").read_text("utf-8") == outcome.out


def test_verify_takes_the_two_newest_runs(dis: Dis, realised: Realised, tmp_path: Path) -> None:
    outcome = dis("verify", "--json")
    assert outcome.code == 1
    assert "comparing the two newest runs: first and second" in outcome.err
    assert outcome.document["bundle_a"]["bundle"] == Path(realised.first).name
    assert (tmp_path / "verify_report.json").is_file()


def test_verify_without_two_runs_is_refused(dis: Dis) -> None:
    outcome = dis("verify")
    outcome.check_one_block()
    assert outcome.code == 2


def test_log_is_that_of_the_generation_and_of_the_run(dis: Dis, realised: Realised) -> None:
    del realised
    outcome = dis("log", "first")
    assert outcome.code == 0
    assert "== generation/build.log\n" in outcome.out
    assert "2 of 2 requests finished" in outcome.out
    logs = dis("log", "first", "--json").document["logs"]
    assert [log["path"] for log in logs] == ["generation/build.log", "build.log"]
    assert "runtime_environment" in dis("log", "first", "--run-log").document


@pytest.mark.parametrize(
    ("ref", "kind", "fields"),
    [
        ("first", "run", {"run_id", "bundle", "inputs", "files", "grade", "sequences"}),
        ("laid-out", "run", {"run_id", "bundle", "inputs", "files", "grade", "sequences"}),
        ("{config}", "manifest", {"manifest_id", "engine", "artifacts", "lock", "requests"}),
        ("{lock}", "lock", {"lock_id", "artifacts", "size"}),
        ("{closure}", "object", {"digest", "entries", "closure_size"}),
    ],
)
def test_inspect_describes_what_it_is_given(
    dis: Dis, realised: Realised, laid_out: Path, ref: str, kind: str, fields: set[str]
) -> None:
    closure = json.loads((laid_out / "bundle.json").read_bytes())["inputs"]["closure"]
    lock = realised.config.with_name("quickstart.lock.json")
    named = ref.format(config=realised.config, lock=lock, closure=closure)
    given = f"./{named}" if named == "laid-out" else named
    document = dis("inspect", given, "--json").document
    assert document["kind"] == kind
    assert fields < set(document)
    text = dis("inspect", "--input", given)
    assert (text.code, text.out.splitlines()[0]) == (0, f"kind: {kind}")


@pytest.mark.parametrize("command", ["show", "log", "inspect", "path-info", "show-derivation"])
@pytest.mark.parametrize(
    "ref", ["frist", "./missing", "0123456789abcdef", "oci://x/y", "x.tar.gz", ""]
)
def test_a_wrong_reference_is_one_block(
    dis: Dis, realised: Realised, command: str, ref: str
) -> None:
    del realised
    outcome = dis(command, ref)
    outcome.check_one_block()
    assert outcome.code in {2, 5}
    assert outcome.out == ""


def test_a_name_that_is_close_is_suggested(dis: Dis, realised: Realised) -> None:
    del realised
    assert "hint: did you mean first?" in dis("show", "frist").err


@pytest.mark.parametrize("command", ["show", "diff", "verify"])
def test_a_manifest_is_no_run(dis: Dis, realised: Realised, command: str) -> None:
    outcome = dis(command, realised.config, *([] if command == "show" else ["first"]))
    outcome.check_one_block()
    assert outcome.code == 2
    assert "is a manifest, not a run" in outcome.err


def test_a_damaged_bundle_is_an_integrity_error(dis: Dis, own_store: Realised) -> None:
    tokens = own_store.path_of("first") / "tokens.json"
    tokens.chmod(0o644)
    tokens.write_text("{}", encoding="utf-8")
    outcome = dis("show", "first")
    outcome.check_one_block()
    assert outcome.code == 4
