"""What `outputs.bundle_policy` of a manifest asks for, from end to end."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from command_line import SHORTER, Dis, Realised

SHORT = ("--set", "inference.n_prompts=2", "--set", SHORTER)
# As every manifest of the older tool has it.
OLDER = '{"include":["manifest","lock","tokens","run_log"],"retention_days":30}'
LOGITS = "logits.safetensors"


def policy(text: str) -> tuple[str, ...]:
    return (*SHORT, "--set", f"outputs.bundle_policy={text}")


@pytest.fixture
def run(dis: Dis, own_store: Realised) -> str:
    """Realise the first run again, with the policy of older manifests, and return its automatic root."""
    outcome = dis("realize", own_store.config, *policy(OLDER), "--json").document
    assert outcome["outputs"]["bundle"]["digest"] == Path(own_store.first).name
    assert outcome["cached"] is True
    (name,) = outcome["roots"]
    return str(name)


def root(dis: Dis, name: str) -> dict[str, object]:
    found = [each for each in dis("root", "list", "--json").document if each["name"] == name]
    return dict(found[0]) if found else {}


# -- include ---------------------------------------------------------------------------------------------------------


def test_a_bundle_does_not_depend_on_the_policy(dis: Dis, own_store: Realised, run: str) -> None:
    assert dis("path-info", run, "--json").document == dis("path-info", "first", "--json").document
    assert Path(own_store.first, LOGITS).exists()


def test_an_archive_holds_what_the_manifest_includes(dis: Dis, run: str, tmp_path: Path) -> None:
    outcome = dis("bundle", run, "--output", "part.tar.gz", "--json")
    (entry,) = outcome.document["left_out"]
    assert entry["path"] == LOGITS
    assert f"left out, as outputs.bundle_policy of its manifest says: {LOGITS}" in outcome.err
    assert dis("bundle", run, "--output", "whole.tar.gz", "--all").err == ""
    assert dis("bundle", "first", "--output", "first.tar.gz").code == 0
    sizes = [(tmp_path / f"{name}.tar.gz").stat().st_size for name in ("part", "whole")]
    assert sizes[0] < sizes[1]
    assert (tmp_path / "whole.tar.gz").read_bytes() == (tmp_path / "first.tar.gz").read_bytes()
    about = dis("inspect", "part.tar.gz", "--json").document
    assert about["left_out"] == [entry]
    assert dis("show", "part.tar.gz", "--json").document["left_out"] == [entry]
    assert entry["object"] in dis("inspect", "part.tar.gz").out
    assert f"{LOGITS} is not with the others, it was left out" in dis("show", "part.tar.gz").err


def test_a_word_on_the_command_line_comes_before_the_manifest(
    dis: Dis, run: str, tmp_path: Path
) -> None:
    with_logits = dis("bundle", run, "--include", "logits", "--include", "tokens", "--json")
    assert with_logits.document["left_out"] == []
    without = dis("bundle", "first", "--include", "tokens", "--output", "x.tar.zst", "--json")
    assert [each["path"] for each in without.document["left_out"]] == [LOGITS]
    assert "outputs.bundle_policy" not in without.err
    plan = dis("bundle", "first", "--include", "tokens", "--output", "y.tar.zst", "--dry-run")
    assert LOGITS in plan.err
    assert not (tmp_path / "y.tar.zst").exists()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--include", "logit"), "did you mean logits"),
        (("--include", "xyzzy"), "nothing of a run is called 'xyzzy'"),
        (("--include", "logits", "--all"), "exclude each other"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(
    dis: Dis, realised: Realised, tmp_path: Path, argv: tuple[str, ...], said: str
) -> None:
    del realised
    outcome = dis("bundle", "first", *argv)
    outcome.check_one_block()
    assert outcome.code == 2
    assert said in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"include":["tokenz"]}', "did you mean 'tokens'?"),
        ('{"include":["other"]}', "/outputs/bundle_policy/include/0 must be 'bundle', 'manifest'"),
        ('{"include":"tokens"}', "must be a list"),
        ('{"retention_days":-1}', "must be at least 0"),
        ('{"retention_days":"30"}', "must be an integer"),
        ('{"retention_days":1000000}', "must be at most 999999"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused_before_any_work(
    dis: Dis, own_store: Realised, text: str, said: str
) -> None:
    outcome = dis("realize", own_store.config, *policy(text))
    outcome.check_one_block()
    assert outcome.code == 2
    assert said in outcome.err


def test_a_run_directory_holds_what_the_manifest_includes(
    dis: Dis, own_store: Realised, run: str, tmp_path: Path
) -> None:
    argv = ("run", own_store.config, *policy(OLDER), "--run-dir", "out")
    assert dis(*argv, "--run-log-output", "log.json").code == 0
    names = {each.name for each in (tmp_path / "out").iterdir()}
    assert LOGITS not in names
    assert {"run_log.json", "left_out.json", "tokens.json", "manifest.used.json"} <= names
    assert dis("diff", "./out", "first", "--strict").code == 0
    bare = policy('{"include":["tokens"]}')
    assert dis("run", own_store.config, *bare, "--run-dir", "bare").code == 0
    assert not (tmp_path / "bare" / "run_log.json").exists()
    more = ("--run-dir", "bare", "--run-log-output", "again.json")
    assert dis("run", own_store.config, *bare, *more).code == 0
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "log.json").read_bytes()
    refused = dis("run", own_store.config, *SHORT, "--run-dir", "bare")
    refused.check_one_block()
    assert refused.code == 2
    assert f"has no {LOGITS}" in refused.err


def test_an_archive_with_gaps_is_compared_by_digest_where_its_store_is_not(
    dis: Dis, run: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, argv in {
        "part": (run,),
        "whole": (run, "--all"),
        "other": ("second", "--all"),
    }.items():
        assert dis("bundle", *argv, "--output", f"{name}.tar.gz").code == 0
    monkeypatch.setenv("DIS_STORE", str(tmp_path / "empty-store"))
    same = dis("diff", "part.tar.gz", "whole.tar.gz", "--strict", "--json")
    assert (same.code, same.document["observables"]["logits"]) == (0, "identical")
    assert dis("verify", "part.tar.gz", "whole.tar.gz", "--output-dir", "v").code == 0
    parted = dis("diff", "part.tar.gz", "other.tar.gz", "--json")
    assert (parted.code, parted.document["observables"]["logits"]) == (1, "left out of A")
    assert "left out of B" in dis("diff", "other.tar.gz", "part.tar.gz").out
    assert dis("diff", "part.tar.gz", "other.tar.gz", "--html", "page.html").code == 1
    assert "left out of A" in (tmp_path / "page.html").read_text("utf-8")
    report = dis("report", "part.tar.gz", "--json").document
    gaps = [each["path"] for each in report["evidence"] if each["left_out"]]
    assert gaps == [LOGITS]
    asked = dis("cat", "part.tar.gz", LOGITS)
    asked.check_one_block()
    assert asked.code == 2
    assert "was left out of part.tar.gz" in asked.err


def test_what_was_unpacked_by_hand_is_a_run_directory(dis: Dis, run: str, tmp_path: Path) -> None:
    assert dis("bundle", run, "--output", "part.tar.gz").code == 0
    shutil.unpack_archive("part.tar.gz", tmp_path / "unpacked", filter="data")
    assert dis("show", tmp_path / "unpacked" / "run").out == dis("show", "first").out


# -- retention_days --------------------------------------------------------------------------------------------------


def test_the_root_of_a_run_says_until_when_it_is_kept(dis: Dis, run: str) -> None:
    until = datetime.fromisoformat(str(root(dis, run)["kept_until"]))
    left = until - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < left <= timedelta(days=30)
    assert root(dis, "first")["kept_until"] is None
    date = until.date().isoformat()
    assert f"kept until {date}, as the manifest quickstart asks" in dis("show", run).err
    assert dis("show", run, "--json").document["kept_until"] == until.isoformat()
    assert dis("inspect", run, "--json").document["kept_until"] == until.isoformat()
    for table in (dis("root", "list").out, dis("gc", "--dry-run").out):
        assert "KEPT UNTIL" in table
        assert date in next(line for line in table.splitlines() if line.startswith(run))


@pytest.mark.parametrize("argv", [("--keep-last", "0"), ("--keep-free", "900T")])
def test_a_collection_keeps_it_and_says_so(dis: Dis, run: str, argv: tuple[str, ...]) -> None:
    assert dis("root", "remove", "first", "--yes").code == 0
    outcome = dis("gc", *argv, "--yes", "--json")
    assert outcome.document["retained_roots"] == [run]
    assert run not in outcome.document["retired_roots"]
    assert "1 automatic root kept, as outputs.bundle_policy of the manifest asks" in outcome.err
    assert dis("show", run).code == 0


@pytest.mark.parametrize("argv", [("remove",), ("remove", "--yes"), ("add",)])
def test_it_is_let_go_of_with_force_only(dis: Dis, run: str, argv: tuple[str, ...]) -> None:
    named = [run, *(["second"] if argv[0] == "add" else ["second", "first"])]
    outcome = dis("root", *argv, *named)
    outcome.check_one_block()
    assert outcome.code == 2
    assert "as the manifest quickstart asks" in outcome.err
    assert "--force" in outcome.err
    assert root(dis, "second")
    assert root(dis, "first")
    assert dis("root", *argv, "--force", *named).code == 0
    assert root(dis, run).get("kept_until") is None


@pytest.mark.parametrize("by", ["name", "digest"])
def test_naming_the_same_run_again_is_no_way_around_a_promise(
    dis: Dis, own_store: Realised, run: str, by: str
) -> None:
    before = root(dis, run)
    again = run if by == "name" else Path(own_store.first).name
    said = dis("root", "add", run, again, "--json").document
    found = root(dis, run)
    assert said["kept_until"] == found["kept_until"] is not None
    assert said["include"] == found["include"] == before["include"]
    refused = dis("root", "remove", run, "--yes")
    refused.check_one_block()
    assert refused.code == 2
    assert dis("root", "add", run, again, "--force").code == 0
    assert dis("root", "remove", run, "--yes").code == 0


def test_a_name_that_a_person_gave_is_no_promise(dis: Dis, run: str) -> None:
    assert dis("root", "add", "mine", run).code == 0
    assert root(dis, "mine")["kept_until"] is None
    assert root(dis, "mine")["include"] == ["manifest", "lock", "tokens", "run_log"]
    assert dis("root", "remove", "mine").code == 0


def test_what_was_promised_outlasts_a_manifest_that_asks_for_less(
    dis: Dis, own_store: Realised, run: str
) -> None:
    for text, days in (('{"retention_days":7}', 30), ("{}", 30), ('{"retention_days":90}', 90)):
        assert dis("realize", own_store.config, *policy(text)).code == 0
        record = json.loads((own_store.store / "roots" / f"{run}.json").read_text("utf-8"))
        assert record["retention"]["days"] == days
        assert "include" not in record


@pytest.mark.parametrize("text", ["{}", '{"retention_days":0}', '{"include":[]}'])
def test_a_policy_that_asks_for_nothing_leaves_the_record_of_the_root_as_it_was(
    dis: Dis, own_store: Realised, text: str
) -> None:
    files = {path: path.read_bytes() for path in (own_store.store / "roots").glob("*.json")}
    assert dis("realize", own_store.config, *policy(text)).code == 0
    assert {path: path.read_bytes() for path in files} == files
