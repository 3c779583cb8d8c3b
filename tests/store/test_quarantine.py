"""What failed verification is moved whole, with what it was, and is on the disk in its new place."""

import errno
import os
from pathlib import Path

import pytest

from dis_store import Store
from dis_store.integrity.quarantine import quarantine, quarantined_name
from waits import watch_waits


def test_names_in_quarantine_say_what_is_there_and_differ(store: Store) -> None:
    layout = store._foundation.layout
    names = [quarantined_name(layout, "abc") for _ in range(10)]
    assert len(set(names)) == 10
    for name in names:
        assert name.parent == store.path / "quarantine"
        assert name.name.startswith("abc-")
        assert len(name.name) == len("abc-") + 16


@pytest.mark.parametrize("mode", [0o555, 0o444, 0o700])
@pytest.mark.parametrize("kind", ["tree", "file", "link"])
def test_what_is_set_aside_keeps_its_mode_and_is_on_the_disk(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: int
) -> None:
    place = tmp_path / "place" / "damaged"
    place.parent.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o711)
    if kind == "tree":
        place.mkdir()
        (place / "file").write_bytes(b"x")
        place.chmod(mode)
    elif kind == "file":
        place.write_bytes(b"x")
        place.chmod(mode)
    else:
        place.symlink_to(outside)
    before = place.lstat()
    waits = watch_waits(monkeypatch, [place])
    target = quarantine(store._foundation.layout, place)
    after = target.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert (target.parent, target.name[:8]) == (store.path / "quarantine", "damaged-")
    assert outside.stat().st_mode & 0o777 == 0o711
    # Both directories, when it had gone from the one.
    assert {wait.inode for wait in waits} == {
        place.parent.stat().st_ino,
        target.parent.stat().st_ino,
    }
    assert not any(wait.named for wait in waits)


@pytest.mark.parametrize("kind", ["tree", "file"])
def test_what_cannot_be_set_aside_stays_as_it_is(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = tmp_path / "damaged"
    if kind == "tree":
        place.mkdir()
    else:
        place.write_bytes(b"x")
    place.chmod(0o555)
    seen: list[int] = []

    def refuse(path: Path, _target: Path) -> None:
        # A directory must be writable for the move, or only root could do it.
        seen.append(path.lstat().st_mode & 0o777)
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        quarantine(store._foundation.layout, place)
    assert seen == [0o755 if kind == "tree" else 0o555]
    assert place.stat().st_mode & 0o777 == 0o555
    assert list((store.path / "quarantine").iterdir()) == []
