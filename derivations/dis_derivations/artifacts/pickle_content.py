"""Recognising files that a loader would unpickle by what they hold, whatever they are called.

Unpickling runs code that the file chooses. A scanner can be deceived, so this one is the second
wall: the first is that weights are only ever loaded from files that parse as safetensors.
"""

import io
import pickletools
import re

HEAD_BYTES = 1 << 18
"""How much of a file's beginning `unsafe_content` wants to see."""

TAIL_BYTES = 1 << 16
"""How much of a file's end `unsafe_content` wants to see."""

# torch.save before 1.6: the pickled integer 0x1950a86a20f9469cfc6c comes first.
_TORCH_LEGACY = bytes.fromhex("8a0a6cfc9c46f9206aa850192e")
_OLDEST_PROTOCOL_BYTE, _NEWEST_PROTOCOL_BYTE = 2, 5
_COMPRESSED = (
    b"\x1f\x8b",  # gzip
    b"x\x01",  # zlib, three levels
    b"x\x9c",
    b"x\xda",
    b"BZh",
    b"\xfd7zXZ\x00",
    b"]\x00\x00",  # lzma
    b"\x04\x22\x4d\x18",  # lz4
    b"\x28\xb5\x2f\xfd",  # zstandard
)
_JOBLIB_OLD = b"ZF0x"
_ZIP_START, _ZIP_END = b"PK\x03\x04", b"PK\x05\x06"
_TAR_MAGIC = b"ustar"
_TAR_MAGIC_AT = 257
_NUMPY = b"\x93NUMPY"
_NUMPY_OBJECTS = re.compile(rb"""['"][|<>=]?O\d*['"]""")
_CALLING = frozenset({"REDUCE", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD"})
_NAMING = frozenset({"GLOBAL", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"})


def unsafe_content(head: bytes, tail: bytes) -> str | None:
    """Say what a file is if a loader would unpickle it or look for pickles in it, else None.

    Args:
        head: The first `HEAD_BYTES` of the file, or all of a shorter one.
        tail: The last `TAIL_BYTES` of the file, or all of a shorter one.
    """
    if head.startswith(_ZIP_START) or _ZIP_END in tail:
        of_torch = b"data.pkl" in head or b"data.pkl" in tail
        return "a PyTorch archive (zip with data.pkl)" if of_torch else "a zip archive"
    if head[_TAR_MAGIC_AT:].startswith(_TAR_MAGIC):
        return "a tar archive, as old versions of PyTorch wrote"
    if head.startswith(_JOBLIB_OLD):
        return "a joblib pickle"
    if head.startswith(_COMPRESSED):
        return "a compressed file, as joblib writes, in which a pickle may hide"
    if head.startswith(_NUMPY):
        holds_objects = _NUMPY_OBJECTS.search(head, 0, 1 << 16)
        return "a numpy file of pickled objects" if holds_objects else None
    return _pickle(head)


def _pickle(head: bytes) -> str | None:
    if _TORCH_LEGACY in head[:32]:
        return "a PyTorch pickle (torch.save before 1.6)"
    has_protocol = head[:1] == b"\x80" and len(head) > 1
    if has_protocol and _OLDEST_PROTOCOL_BYTE <= head[1] <= _NEWEST_PROTOCOL_BYTE:
        return f"a pickle (protocol {head[1]})"
    return "a pickle (protocol 0 or 1)" if _runs_as_pickle(head) else None


def _runs_as_pickle(head: bytes) -> bool:
    """Return whether an unpickler would get anywhere with a file that has no protocol byte.

    That is: to its end, beyond all of a full `head`, or to a call before something in it is broken,
    for a broken pickle runs code too.
    """
    named = False
    operations = 0
    stream = io.BytesIO(head)
    try:
        for operation, _, _ in pickletools.genops(stream):
            operations += 1
            if operation.name == "INST" or (named and operation.name in _CALLING):
                return True
            named = named or operation.name in _NAMING
    except Exception:  # noqa: BLE001 - its decoders raise whatever they like on bytes of no pickle
        return operations > 1 and stream.tell() == HEAD_BYTES
    return operations > 1
