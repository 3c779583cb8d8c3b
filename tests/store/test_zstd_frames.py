import io
import os

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dis_store.archives.compression import compressing, decompressing
from dis_store.archives.zstd_frames import FrameFollower
from dis_store.errors import IntegrityError

# Compressible, all one byte, and not compressible: the three kinds of block.
CONTENTS = (b"", b"a" * 300_000, bytes(range(256)) * 900, os.urandom(200_000), b"short")
SKIPPABLE = b"\x5a\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"


def compressed(content: bytes) -> bytes:
    stream = io.BytesIO()
    with compressing(stream) as compressor:
        compressor.write(content)
    return stream.getvalue()


def followed(data: bytes, piece: int = 1 << 20) -> bool:
    follower = FrameFollower()
    for start in range(0, len(data), piece):
        follower.feed(data[start : start + piece])
    return follower.between_frames


@pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
@pytest.mark.parametrize("size", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
def test_a_frame_is_followed_to_its_end_and_no_beginning_of_it_is_whole(
    content: bytes, size: bool, checksum: bool
) -> None:
    frame = zstandard.ZstdCompressor(write_content_size=size, write_checksum=checksum).compress(
        content
    )
    assert followed(frame)
    assert followed(frame + SKIPPABLE + frame)
    for cut in {1, 2, 5, len(frame) // 2, *range(max(1, len(frame) - 8), len(frame))}:
        assert not followed(frame[:cut])


@given(st.lists(st.sampled_from(CONTENTS), max_size=4), st.integers(1, 70_000))
def test_frames_are_followed_in_whatever_pieces_they_come(
    contents: list[bytes], piece: int
) -> None:
    stream = b"".join(map(compressed, contents))
    assert followed(stream, piece)
    assert not followed(stream + b"\x28", piece)


def read_whole(data: bytes) -> None:
    with decompressing(io.BytesIO(data), "it") as stream:
        while stream.read(1000):
            pass


def test_a_compressed_stream_that_was_cut_off_anywhere_is_damaged() -> None:
    whole = compressed(b"what an archive holds " * 40)
    read_whole(whole)
    for cut in range(4, len(whole)):
        with pytest.raises(IntegrityError, match="is damaged"):
            read_whole(whole[:cut])
