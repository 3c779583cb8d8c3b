"""`dis store add`, `export`, `import`, `optimise` and `stats`."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Dis, Realised


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "weights").write_bytes(b"w" * 3000)
    return directory


def test_add_prints_the_path_of_the_object_and_keeps_it_under_a_name(dis: Dis, model: Path) -> None:
    added = dis("store", "add", model, "--name", "model")
    assert added.code == 0
    assert re.fullmatch(r"note: 1 file .*; (2\.9 Ki|0 )B written\n", added.err)
    assert Path(added.out.strip(), "weights").read_bytes() == b"w" * 3000
    assert dis("gc").code == 0
    assert dis("ls", "model").out.strip().endswith("weights")
    assert model.exists()


def test_add_without_a_name_says_that_nothing_keeps_it(dis: Dis, model: Path) -> None:
    added = dis("store", "add", model, model / "weights", "--json")
    assert "dis root add" in added.err
    one, two = added.document
    assert one["size"] == two["size"] == 3000
    (way,) = one["taken"]["ways"].values()
    assert way == {"files": 1, "bytes": 3000}
    assert one["digest"] == two["digest"]
    assert dis("gc", "--json").document["objects"][0]["digest"] == one["digest"]


def test_adopt_moves(dis: Dis, model: Path) -> None:
    added = dis("store", "add", "--adopt", model, "--name", "model")
    assert (added.code, added.err) == (0, "note: 1 file moved; 0 B written\n")
    assert not model.exists()
    assert Path(added.out.strip(), "weights").stat().st_nlink == 2


def test_what_was_moved_is_kept_even_without_a_name(dis: Dis, model: Path) -> None:
    added = dis("store", "add", "--adopt", model)
    digest = Path(added.out.strip()).name
    assert f"note: kept as adopted.{digest[:8]}; let go of it: dis root remove" in added.err
    assert "no root keeps it" not in added.err
    assert dis("gc").code == 0
    assert Path(added.out.strip(), "weights").is_file()
    assert dis("why-alive", digest).out == f"named root adopted.{digest[:8]}: {digest[:12]}\n"
    assert dis("root", "remove", f"adopted.{digest[:8]}").code == 0


def test_add_refuses_what_an_object_cannot_hold(dis: Dis, model: Path) -> None:
    (model / "link").symlink_to("weights")
    refused = dis("store", "add", model)
    refused.check_one_block()
    assert refused.code == 2
    assert "it is a symlink" in refused.err


def test_one_name_is_for_one_path_and_must_be_a_good_one(dis: Dis, model: Path) -> None:
    assert dis("store", "add", model, model, "--name", "x").code == 2
    assert dis("store", "add", "--adopt", model, "--name", "a/b").code == 2
    assert model.exists()


def test_a_run_goes_to_another_store_and_is_the_same_there(
    dis: Dis, realised: Realised, tmp_path: Path
) -> None:
    archive = tmp_path / "first.tar"
    document = dis("store", "export", "first", "--output", archive, "--json").document
    assert document["size"] == archive.stat().st_size
    piped = subprocess.run(
        [sys.executable, "-m", "dis_command", "store", "export", "first"],
        capture_output=True,
        check=True,
    )
    assert piped.stdout == archive.read_bytes()
    other = tmp_path / "other"
    came = dis("--store", other, "store", "import", archive)
    assert Path(came.out.strip()).name == Path(realised.first).name
    assert "dis root add" in came.err
    assert dis("--store", other, "show", Path(realised.first).name).out == dis("show", "first").out
    again = dis("--store", other, "store", "import", archive, "--json").document
    assert (again["new"], again["objects"]) == (0, document["objects"])


def test_import_reads_a_pipe(
    dis: Dis, realised: Realised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "first.tar"
    dis("store", "export", "first", "--output", archive)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(archive.read_bytes())))
    came = dis("--store", tmp_path / "other", "store", "import", "-", "--json")
    assert came.document["roots"] == [Path(realised.first).name]


def test_import_refuses_what_is_no_archive(dis: Dis, tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"x" * 5000)
    for path, code in ((tmp_path / "x.tar", 2), (tmp_path / "none.tar", 2), (tmp_path, 2)):
        refused = dis("store", "import", path)
        refused.check_one_block()
        assert refused.code == code


def test_an_export_that_fails_leaves_no_file(dis: Dis, own_store: Realised, tmp_path: Path) -> None:
    tokens = own_store.path_of("first") / "tokens.json"
    size = tokens.stat().st_size
    tokens.chmod(0o644)
    tokens.write_bytes(b"x" * size)
    failed = dis("store", "export", "first", "--output", tmp_path / "first.tar")
    failed.check_one_block()
    assert failed.code == 4
    assert not (tmp_path / "first.tar").exists()


def test_json_and_an_archive_do_not_share_stdout(dis: Dis, realised: Realised) -> None:
    del realised
    assert dis("store", "export", "first", "--json").code == 2


def test_optimise_shares_once_what_a_copy_of_a_store_does_not(
    dis: Dis, own_store: Realised
) -> None:
    del own_store
    assert dis("store", "optimise", "--json").document["files"] > 0
    assert dis("store", "optimise").out == "0 files shared now, 0 B freed\n"
    document = dis("store", "optimise", "--json").document
    assert (document["files"], document["damaged"]) == (0, [])


def test_optimise_tells_what_is_damaged(dis: Dis, own_store: Realised) -> None:
    (own_store.path_of("first") / "tokens.json").chmod(0o644)
    told = dis("store", "optimise")
    assert told.code == 4
    assert "tokens.json" in told.out


def test_stats_count_what_the_store_holds(dis: Dis, realised: Realised) -> None:
    document = dis("store", "stats", "--json").document
    assert document["path"] == str(realised.store)
    assert document["roots"] >= 2
    assert document["objects"] > document["roots"]
    text = dis("store", "stats").out
    assert (
        f"objects          {document['objects']}" in " ".join(text.splitlines())
        or "objects" in text
    )
