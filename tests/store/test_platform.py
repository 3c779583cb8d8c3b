import errno
import os
from pathlib import Path

import pytest

from dis_store import durability, hashing, platform_linux
from dis_store.digest import Digest, Sha256
from dis_store.environment import explain
from dis_store.errors import InvalidInputError


@pytest.fixture(params=["with the system's calls", "without them"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with what Linux offers, and with the fallbacks."""
    if request.param == "without them":
        monkeypatch.setattr(platform_linux, "_libc", lambda: None)
        monkeypatch.setattr("dis_store.platform_linux.sys.platform", "other")


@pytest.mark.usefixtures("either")
def test_a_rename_replaces_nothing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("empty directory", "file", "dangling link"):
        target = tmp_path / name
        if name == "file":
            target.touch()
        elif name == "dangling link":
            target.symlink_to("nothing")
        else:
            target.mkdir()
        with pytest.raises(FileExistsError):
            platform_linux.rename_noreplace(source, target)
    platform_linux.rename_noreplace(source, tmp_path / "new")
    assert (tmp_path / "new").is_dir()
    assert not source.exists()


@pytest.mark.usefixtures("either")
def test_cloning_shares_the_content_or_says_that_it_cannot(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"content")
    with (tmp_path / "source").open("rb") as source, (tmp_path / "target").open("wb") as target:
        cloned = platform_linux.clone_file(source.fileno(), target.fileno())
    assert (tmp_path / "target").read_bytes() == (b"content" if cloned else b"")


@pytest.mark.usefixtures("either")
def test_early_write_back_changes_nothing(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(b"content")
        platform_linux.start_writeback(file.fileno(), 0, 7)
    assert (tmp_path / "file").read_bytes() == b"content"


@pytest.mark.usefixtures("either")
def test_no_local_directory_is_called_a_network_one(tmp_path: Path) -> None:
    assert not platform_linux.is_network_file_system(tmp_path)


def test_an_error_of_the_system_is_not_taken_for_a_missing_call(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        platform_linux.rename_noreplace(tmp_path / "missing", tmp_path / "new")


def test_a_machine_without_a_boot_id_has_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    assert platform_linux.boot_id() == platform_linux.boot_id()
    monkeypatch.setattr(Path, "read_text", missing)
    assert platform_linux.boot_id() == "0" * 32


def fail(*_: object) -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_real_error_while_copying_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.ioctl", fail)
    (tmp_path / "source").write_bytes(b"content")
    with (
        (tmp_path / "source").open("rb") as source,
        (tmp_path / "target").open("wb") as target,
        pytest.raises(OSError, match="Input/output"),
    ):
        platform_linux.clone_file(source.fileno(), target.fileno())


def test_a_write_that_the_kernel_cuts_short_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    with (tmp_path / "file").open("wb") as file:
        platform_linux.write_all(file.fileno(), b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_record_is_replaced_in_one_step_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "record"
    durability.write_durably(tmp_path / "new", target, b"old")

    for name, owner in (("replace", Path), ("fsync", os)):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, fail)
            with pytest.raises(OSError, match="Input/output"):
                durability.write_durably(tmp_path / "new", target, b"new")
        assert target.read_bytes() == b"old"
        assert not (tmp_path / "new").exists()
    durability.write_durably(tmp_path / "new", target, b"new")
    assert target.read_bytes() == b"new"


def test_removing_what_is_gone_is_no_error(tmp_path: Path) -> None:
    durability.remove_tree(tmp_path / "missing")
    durability.remove_tree(tmp_path / "missing" / "deep")


def test_an_abandoned_hash_ends_its_thread() -> None:
    hasher = hashing.ContentHasher()
    for _ in range(10):
        hasher.update(b"x" * (1 << 20))
    hasher.abandon()
    assert hasher._beside._thread is not None
    # Nobody waits for it when the user interrupts, but it ends.
    hasher._beside._thread.join(timeout=60)
    assert not hasher._beside._thread.is_alive()


def test_a_file_that_breaks_off_while_it_is_hashed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"x")

    monkeypatch.setattr(os, "pread", fail)
    with (tmp_path / "file").open("rb") as file, pytest.raises(OSError, match="Input/output"):
        hashing.hash_content(file.fileno())


@pytest.mark.parametrize(
    "text", ["", "ab", "A" * 64, "g" * 64, "0" * 63, "0" * 65, "0" * 64 + "\n"]
)
def test_a_malformed_digest_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        Digest(text)
    with pytest.raises(InvalidInputError):
        Sha256(f"sha256:{text}")
    with pytest.raises(InvalidInputError):
        Sha256("0" * 64)


def test_a_digest_is_its_text() -> None:
    digest = Digest.of(b"x")
    assert Digest(str(digest)) == digest
    assert Sha256.of(b"x") == f"sha256:{Sha256.of(b'x').hex}"


def test_an_error_about_a_name_in_an_open_directory_becomes_one_about_a_whole_path(
    tmp_path: Path,
) -> None:
    (tmp_path / "d").mkdir()
    parent = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(FileNotFoundError) as caught:
            os.unlink("gone", dir_fd=parent)
        found = platform_linux.located(caught.value, "gone", parent)
        # What was opened is no name: the number of a descriptor says nothing to anybody.
        numbered = OSError(errno.EIO, "Input/output error", 9)
        inner = platform_linux.located(numbered, "d", parent)
    finally:
        os.close(parent)
    assert isinstance(found, FileNotFoundError)
    assert found.filename == str(tmp_path / "gone")
    assert inner.filename == str(tmp_path / "d")
    # One that is whole is not put below anything else; and what is closed has no path.
    assert platform_linux.located(found, "other", 0).filename == found.filename
    assert platform_linux.located(numbered, "d", 10_000) is numbered


def test_what_may_be_changed_has_no_attribute_that_forbids_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    for name in (".", "file", "link", "gone"):
        assert platform_linux.forbidding_attributes(tmp_path / name) == ""


def test_an_error_of_the_system_is_explained_whatever_it_says_of_its_place(tmp_path: Path) -> None:
    for name in (None, 9, "x", b"x", str(tmp_path)):
        for number in (errno.EPERM, errno.EACCES, errno.EXDEV, errno.EIO, errno.ENOSPC):
            explained = explain(OSError(number, os.strerror(number), name), tmp_path)
            assert explained.exit_code == 5
            assert str(tmp_path) in explained.what
