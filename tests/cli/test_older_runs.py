"""Directories and archives of deterministic_inference.cli as the commands take them."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Dis, Realised
from older_runs import Older, OlderAnswer, archived


@pytest.fixture
def older(tmp_path: Path) -> Path:
    return Older().write(tmp_path / "runs" / "older")


def test_two_older_runs_are_compared(dis: Dis, older: Path, tmp_path: Path) -> None:
    same = Older(time="2026-03-01T00:00:00Z").write(tmp_path / "same")
    other = Older(answers=(OlderAnswer((5, 9, 7)),)).write(tmp_path / "other")

    outcome = dis("diff", older, same)
    assert outcome.code == 0, outcome.err
    assert "Results: THE SAME" in outcome.out
    assert "made by deterministic_inference.cli" in outcome.out
    assert "Unknown" in outcome.out

    outcome = dis("diff", older / "bundle.json", other, "--json")
    assert outcome.code == 1
    assert outcome.document["verdict"] == "different"
    assert outcome.document["first_divergence"]["position"] == 1
    assert dis("diff", older, same, "--strict").code == 1


def test_an_older_run_is_compared_with_one_of_the_store(
    dis: Dis, older: Path, realised: Realised
) -> None:
    outcome = dis("diff", "first", older)

    assert outcome.code == 1
    assert "made by dis, engine reference" in outcome.out
    assert dis("diff", older, "first", "--json").document["same"] is False


def test_an_archive_that_the_older_tool_made_is_the_same_run(dis: Dis, older: Path) -> None:
    assert dis("diff", archived(older), older).code == 0
    assert dis("diff", archived(older), older, "--strict").code == 0


def test_other_commands_say_what_it_is(dis: Dis, older: Path) -> None:
    for arguments in (
        ("show", older),
        ("verify", older, older),
        ("diff", "--matrix", older, older),
    ):
        outcome = dis(*arguments)
        assert outcome.code == 2
        outcome.check_one_block()
        assert "deterministic_inference.cli" in outcome.err
        assert "dis diff A B" in outcome.err


def test_a_malformed_file_is_one_block_that_names_it(dis: Dis, older: Path) -> None:
    tokens = json.loads((older / "tokens.json").read_text("utf-8"))
    tokens["sequences"][0]["output_token_ids"][1] = "six"
    (older / "tokens.json").write_text(json.dumps(tokens), "utf-8")

    outcome = dis("diff", older, older)

    assert outcome.code == 2
    outcome.check_one_block()
    assert f"tokens.json is malformed in the older run {older}" in outcome.err
    assert "/sequences/0/output_token_ids" in outcome.err


def test_links_out_of_the_directory_are_refused(dis: Dis, older: Path, tmp_path: Path) -> None:
    (older / "tokens.json").rename(tmp_path / "elsewhere.json")
    (older / "tokens.json").symlink_to(tmp_path / "elsewhere.json")
    (older / "run_log.json").unlink()

    outcome = dis("diff", older, older)

    assert outcome.code == 2
    outcome.check_one_block()


def test_an_archive_writes_only_the_files_of_a_run(
    dis: Dis, older: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = tmp_path / "evil.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("../../escaped", "/etc/escaped", "older/run_log.json.sh"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
        link = tarfile.TarInfo("older/tokens.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
        archive.add(older, arcname="older")

    assert dis("diff", path, older).code == 0

    assert not list(tmp_path.rglob("*escaped*"))
    assert not list(scratch.iterdir())


def _twice(older: Path) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        archive.add(older, arcname="a")
        archive.add(older, arcname="b")
    return held.getvalue()


def _saying(name: str, size: int) -> Callable[[Path], bytes]:
    """Return what makes an archive with a file in it that says how long it is, before much that is nothing."""
    member = bytearray(tarfile.TarInfo(name).tobuf(tarfile.GNU_FORMAT))
    member[124:136] = b"\xff" + (256**11 + size).to_bytes(11, "big")
    member[148:156] = b" " * 8
    member[148:156] = b"%06o\0 " % sum(member)
    return lambda _: gzip.compress(bytes(member) + bytes(1 << 20), mtime=0)


BROKEN: dict[str, Callable[[Path], bytes]] = {
    "cut": lambda older: archived(older).read_bytes()[:-200],
    "cut inside": lambda older: gzip.compress(
        gzip.decompress(archived(older).read_bytes())[:3000], mtime=0
    ),
    "two runs": _twice,
    "no tar": lambda _: gzip.compress(b"no tar file" * 100, mtime=0),
    "empty": lambda _: b"",
    "a negative size, which reads all that there is": _saying("a/bundle.json", -1),
    "a negative size of another file": _saying("a/other", -1024),
    "a negative size that gives room back": _saying("a/other", -(1 << 40)),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_archive_is_one_error(dis: Dis, older: Path, tmp_path: Path, what: str) -> None:
    path = tmp_path / "broken.tar.gz"
    path.write_bytes(BROKEN[what](older))

    outcome = dis("diff", path, older)

    assert outcome.code in {2, 4}, outcome.out
    outcome.check_one_block()
