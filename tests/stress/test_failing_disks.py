"""Disks that fail under what is on them: whoever reads is told which file, goes on living, and reads no zeros.

`tests/cli/test_unreadable_files.py` lets single calls of the whole command fail; here the disk itself does.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from auditing import audit
from checkpoints import CheckpointShape, write_checkpoint
from dis_derivations.artifacts.weight_file import WeightFile
from dis_derivations.conversion.gguf_checkpoint import read_checkpoint
from dis_derivations.conversion.gguf_numbers import row_blocks
from dis_derivations.engines.reference.checkpoint import Checkpoint
from dis_derivations.images.elf_file import is_elf, read_elf
from dis_store import Store
from dis_store.errors import IntegrityError
from disks import EXT4, be_able_to_mount, cut_off, mounted
from forked_commands import Caller
from gguf_files import write_gguf
from processes import at_once

pytestmark = pytest.mark.stress
# So that a tensor has several blocks of the disk.
SHAPE = CheckpointShape(vocabulary=2000, layers=1)
CutOff = Callable[[Path, int], None]


@pytest.fixture
def disk(memory: Path) -> Path:
    """Where a disk is mounted."""
    be_able_to_mount("mkfs.ext4", "losetup")
    EXT4.make(memory / "image")
    place = memory / "disk"
    place.mkdir()
    return place


@pytest.fixture
def cutting(disk: Path, memory: Path) -> Iterator[CutOff]:
    """Mount the disk, and give what lets it lose the rest of a file from a byte on."""
    size = (memory / "image").stat().st_size
    with mounted(memory / "image", disk, EXT4):
        yield lambda file, offset: cut_off(memory / "image", file, offset)
        # What it held is gone, and it is a disk again, which can be unmounted.
        with (memory / "image").open("r+b") as image:
            image.truncate(size)


def check_named(path: Path, read: Callable[[], object]) -> None:
    """See that a file cannot be read, in a child: of a mapped file, the kernel would end it."""

    def judge() -> None:
        with pytest.raises(IntegrityError, match="cannot be read") as caught:
            read()
        assert caught.value.what == f"{path} cannot be read"
        assert caught.value.cause == "Input/output error"

    at_once([judge])


def test_weights_that_the_disk_does_not_give_are_damage(disk: Path, cutting: CutOff) -> None:
    path = write_checkpoint(disk / "model", SHAPE)["model.safetensors"]
    shape = (SHAPE.vocabulary, SHAPE.hidden)
    checkpoint = Checkpoint({path.name: path})
    tensor = checkpoint.take("lm_head.weight", shape)
    cutting(path, tensor.begin + 100_000)
    check_named(path, lambda: tensor.read(np.empty(shape)))
    check_named(path, tensor.require_finite)
    last = np.array([shape[0] - 1], dtype=np.intp)
    check_named(path, lambda: tensor.rows(last))
    # What lies before is what was written, to the last bit.
    first = checkpoint.take("model.embed_tokens.weight", shape)
    read: NDArray[Any] = np.empty(shape)
    first.read(read)
    assert np.isfinite(read).all()
    assert read.any(axis=1).all()


def test_a_gguf_file_that_the_disk_does_not_give_is_damage(disk: Path, cutting: CutOff) -> None:
    path = write_gguf(disk / "m.gguf", SHAPE)
    tensors = read_checkpoint(path, name=path.name).model.tensors
    last = max(tensors.values(), key=lambda each: each.source.begin)
    file = WeightFile(path)
    cutting(path, last.source.begin)
    check_named(path, lambda: list(row_blocks(last, file.read_into)))


def test_a_header_that_the_disk_does_not_give_is_damage(disk: Path, cutting: CutOff) -> None:
    path = write_checkpoint(disk / "model", SHAPE)["model.safetensors"]
    cutting(path, 0)
    check_named(path, lambda: Checkpoint({path.name: path}))


def test_a_library_that_the_disk_does_not_give_is_named(disk: Path, cutting: CutOff) -> None:
    path = disk / "ls"
    path.write_bytes(Path("/bin/ls").read_bytes())
    assert is_elf(path)
    cutting(path, 0)
    check_named(path, lambda: read_elf(path))
    check_named(path, lambda: is_elf(path))


def test_a_model_that_the_disk_gives_in_part_is_not_added(
    disk: Path, cutting: CutOff, caller: Caller
) -> None:
    """The same disk for the whole command: one block, the exit code of damage, and nothing in the store."""
    path = write_checkpoint(disk / "model", SHAPE)["model.safetensors"]
    cutting(path, 200_000)
    ended = caller("store", "add", path.parent)
    assert ended.code == 4, ended
    assert "Traceback" not in ended.err
    assert f"{path} cannot be read" in ended.err
    assert "Input/output error" in ended.err
    assert audit(caller.store) == []
    with Store.open(caller.store) as store:
        assert not store.objects()
