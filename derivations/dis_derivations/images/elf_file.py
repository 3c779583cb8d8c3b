"""What an ELF file says it needs: its loader, and shared libraries. Nothing of it is run, as `ldd` may do."""

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from dis_store.environment import reading
from dis_store.errors import InvalidInputError

_MAGIC = b"\x7fELF"
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 15, 29
_64_BIT, _LITTLE_ENDIAN = 2, 1
_SEGMENT, _ENTRY = struct.Struct("<IIQQQQ"), struct.Struct("<qQ")
_MAX_HEADERS = 1024
_MAX_ENTRIES = 8192
_MAX_TEXT = 4096


@dataclass(frozen=True)
class ElfFile:
    """A program or a library.

    Attributes:
        machine: The number of its processor.
        loader: What the kernel starts to load it; None for a library.
        needed: The names of the libraries that it asks for, in order.
        search: Directories that it wants them looked for in, `$ORIGIN` not yet replaced.
    """

    machine: int
    loader: str | None
    needed: tuple[str, ...]
    search: tuple[str, ...]


def is_elf(path: Path) -> bool:
    """Tell whether a file begins as ELF files do.

    Raises:
        IntegrityError: The disk does not give what is in it.
    """
    try:
        with reading(path), path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def read_elf(path: Path) -> ElfFile:
    """Return what an ELF file says of itself.

    Raises:
        InvalidInputError: It is none of 64 bits in little-endian order, or malformed.
        IntegrityError: The disk does not give what is in it.
    """
    try:
        with reading(path), path.open("rb") as file:
            return _Reader(file.fileno()).read()
    except (OSError, ValueError, OverflowError, struct.error) as error:
        raise InvalidInputError(
            f"{path} is no program or library that can be read", cause=str(error)
        ) from error


@dataclass(frozen=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


class _Reader:
    """Reads what is wanted and maps nothing: a page of a map that the disk does not give ends the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self) -> ElfFile:
        magic, bits, order = struct.unpack("<4sBB", self._bytes(0, 6))
        if magic != _MAGIC:
            raise ValueError("it is no ELF file")
        if (bits, order) != (_64_BIT, _LITTLE_ENDIAN):
            raise ValueError("it is not of 64 bits in little-endian order")
        machine = self._number("<H", 18)
        segments = self._segments()
        loader = next(
            (self._text(each.offset) for each in segments if each.kind == _PT_INTERP), None
        )
        entries = [
            entry for each in segments if each.kind == _PT_DYNAMIC for entry in self._dynamic(each)
        ]
        table = next((value for tag, value in entries if tag == _DT_STRTAB), None)
        if table is None:
            return ElfFile(machine, loader, (), ())
        start = _offset_of(table, segments)

        def texts(wanted: int) -> tuple[str, ...]:
            return tuple(self._text(start + value) for tag, value in entries if tag == wanted)

        # A RUNPATH makes the loader ignore an RPATH.
        search = texts(_DT_RUNPATH) or texts(_DT_RPATH)
        places = tuple(place for text in search for place in text.split(":") if place)
        return ElfFile(machine, loader, texts(_DT_NEEDED), places)

    def _segments(self) -> list[_Segment]:
        start, size, count = (
            self._number("<Q", 32),
            self._number("<H", 54),
            self._number("<H", 56),
        )
        if count > _MAX_HEADERS:
            raise ValueError("it has too many segments")
        found = []
        for number in range(count):
            raw = self._bytes(start + number * size, _SEGMENT.size)
            kind, _, offset, address, _, length = _SEGMENT.unpack(raw)
            found.append(_Segment(kind, offset, address, length))
        return found

    def _dynamic(self, segment: _Segment) -> list[tuple[int, int]]:
        entries: list[tuple[int, int]] = []
        size = min(segment.size // _ENTRY.size, _MAX_ENTRIES) * _ENTRY.size
        raw = self._bytes(segment.offset, size)
        for at in range(0, size, _ENTRY.size):
            tag, value = _ENTRY.unpack_from(raw, at)
            if tag == _DT_NULL:
                break
            entries.append((tag, value))
        return entries

    def _number(self, form: str, offset: int) -> int:
        return int(struct.unpack(form, self._bytes(offset, struct.calcsize(form)))[0])

    def _text(self, offset: int) -> str:
        text, end, _ = self._bytes(offset, _MAX_TEXT).partition(b"\0")
        if not end:
            raise ValueError("a text in it has no end")
        return text.decode("utf-8")

    def _bytes(self, offset: int, most: int) -> bytes:
        """Return so many bytes of the file, or those up to its end."""
        return os.pread(self._descriptor, most, offset)


def _offset_of(address: int, segments: list[_Segment]) -> int:
    for each in segments:
        if each.kind == _PT_LOAD and each.address <= address < each.address + each.size:
            return address - each.address + each.offset
    raise ValueError("its texts are in no segment")
