"""Archives that attack whoever unpacks them, each named after its attack, and after a case of it where there is one.

Every attack is made out of a good archive, of closures or of a run, so that nothing but the attack can be the reason
why it is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tar_bytes import (
    BLOCK,
    BLOCK_DEVICE,
    CHARACTER,
    DIRECTORY,
    FIFO,
    GNU_LONG_LINK,
    GNU_MAGIC,
    HARD_LINK,
    PAX_GLOBAL,
    SYMLINK,
    Member,
    base_256,
    ended,
    extended,
    long_name,
    pax_records,
)

REFUSED = frozenset({2, 4})


@dataclass(frozen=True)
class Good:
    """A good archive.

    Attributes:
        kind: `closures` or `run`.
        members: Its members; the last two are files.
        record: What its length is a multiple of.
    """

    kind: str
    members: tuple[Member, ...]
    record: int

    def pack(self, members: Sequence[Member]) -> bytes:
        """Return an archive of other members."""
        return ended(members, self.record)

    @property
    def data(self) -> bytes:
        """The archive itself."""
        return self.pack(self.members)


# What becomes of a good archive, given a directory outside that an attacker would like to write to.
Attack = Callable[[Good, str], bytes]


def _last(**fields: object) -> Attack:
    """Say something else of the last file."""
    return lambda good, _: good.pack([*good.members[:-1], good.members[-1].but(**fields)])


def _named(name: str) -> Attack:
    """Give the last file another name; `OUT` in it stands for the directory outside."""
    return lambda good, out: _last(name=name.replace("OUT", out))(good, out)


def _linked(kind: str, target: str) -> Attack:
    """Let the last file be a link."""

    def change(good: Good, out: str) -> bytes:
        link = Member(good.members[-1].name, type=kind, link=target.replace("OUT", out))
        return good.pack([*good.members[:-1], link])

    return change


def _before(*strangers: Member) -> Attack:
    """Put other members before the last file."""

    def change(good: Good, out: str) -> bytes:
        placed = [
            each.but(name=_placed(each.name, out), link=_placed(each.link, out))
            for each in strangers
        ]
        return good.pack([*good.members[:-1], *placed, good.members[-1]])

    return change


def _placed(text: str | bytes, out: str) -> str | bytes:
    return text.replace("OUT", out) if isinstance(text, str) else text


def _headed(blocks: bytes | Callable[[str], bytes]) -> Attack:
    """Put extended headers before the last file."""
    return lambda good, out: _last(before=blocks if isinstance(blocks, bytes) else blocks(out))(
        good, out
    )


def _of_a_type(kind: str) -> Attack:
    return _last(type=kind)


def _members(change: Callable[[Sequence[Member]], Sequence[Member]]) -> Attack:
    return lambda good, _: good.pack(change(good.members))


def _bytes(change: Callable[[bytes], bytes]) -> Attack:
    return lambda good, _: change(good.data)


def _swapped_contents(members: Sequence[Member]) -> Sequence[Member]:
    *rest, one, two = members
    return [*rest, one.but(data=two.data), two.but(data=one.data)]


def _swapped_names(members: Sequence[Member]) -> Sequence[Member]:
    *rest, one, two = members
    return [*rest, one.but(name=two.name), two.but(name=one.name)]


def _symlink_then_file_below(good: Good, out: str) -> bytes:
    top = str(good.members[-1].name).partition("/")[0]
    return good.pack([good.members[0], Member(top, type=SYMLINK, link=out), *good.members[1:]])


def _chain_of_long_links(good: Good, out: str) -> bytes:
    """Make links whose joined length is beyond PATH_MAX, so that a check by `realpath` gives up before the end."""
    step, links, inside = "d" * 200, list[Member](), "files"
    for name in "abcdefghijklmnop":
        links.append(Member(f"{inside}/{step}", type=DIRECTORY, mode=0o755))
        links.append(Member(f"{inside}/{name}", type=SYMLINK, link=step))
        inside = f"{inside}/{name}"
    links.append(Member("escape", type=SYMLINK, link=f"{inside}/../../../../../..{out}"))
    return good.pack([good.members[0], *links, Member("escape/planted", b"x"), *good.members[1:]])


NAMES: Mapping[str, Attack] = {
    "traversal (CVE-2007-4559)": _named("../../planted"),
    "traversal from a directory (CVE-2021-21272)": _named("files/../../../planted"),
    "traversal behind a dot": _named("./../planted"),
    "traversal with backslashes (restic 1445)": _named("..\\..\\planted"),
    "traversal that is encoded for URLs": _named("..%2f..%2fplanted"),
    "traversal in wide characters": _named("\uff0e\uff0e\uff0fplanted"),
    "traversal in overlong UTF-8": _last(name=b"..\xc0\xaf..\xc0\xafplanted"),
    "traversal in the prefix field": _last(name=b"planted", prefix=b"../.."),
    "traversal behind a null": _last(name=b"files/x\0/../../planted"),
    "absolute": _named("OUT/planted"),
    "absolute with two slashes": _named("/OUT/planted"),
    "absolute in the prefix field": lambda good, out: _last(name=b"planted", prefix=out.encode())(good, out),
    "home directory": _named("~/planted"),
    "drive": _named("C:\\planted"),
    "drive without a directory": _named("C:planted"),
    "network share": _named("\\\\server\\share\\planted"),
    "device of Windows": _named("files/NUL"),
    "alternate data stream": _named("files/x:stream"),
    "option for tar": _named("--checkpoint-action=exec=sh planted.sh"),
    "name that steers a terminal (CVE-2023-30844)": _named("files/\x1b]0;owned\x07\x1b[2J"),
    "name with a new line": _named("files/x\nerror: forged"),
    "name that reads backwards": _named("files/\u202egnp.exe"),
    "name that is no text": _last(name=b"files/\xff\xfe"),
    "empty name": _named(""),
    "name of a directory": _named("files/"),
    "dot": _named("."),
}  # fmt: skip

LINKS: Mapping[str, Attack] = {
    "symlink to a file outside (CVE-2024-45593)": _linked(SYMLINK, "OUT/canary"),
    "symlink to a directory outside": _linked(SYMLINK, "OUT"),
    "relative symlink out": _linked(SYMLINK, "../../../canary"),
    "symlink within the archive": _linked(SYMLINK, "archive.json"),
    "symlink and a file below it (CVE-2026-62268)": _symlink_then_file_below,
    "symlink with a slash at its end": _before(Member("files/", type=SYMLINK, link="OUT")),
    "links longer than PATH_MAX (CVE-2025-4517)": _chain_of_long_links,
    "symlink and a file of its name": _before(
        Member("files/x", type=SYMLINK, link="OUT/canary"), Member("files/x", b"planted")
    ),
    "hard link to a file outside (CVE-2026-50163)": _linked(HARD_LINK, "OUT/canary"),
    "hard link with a traversal": _linked(HARD_LINK, "../../canary"),
    "hard link to a symlink": _before(
        Member("files/a", type=SYMLINK, link="OUT/canary"), Member("files/b", type=HARD_LINK, link="files/a"),
    ),
    "hard link and content": _last(type=HARD_LINK, link="archive.json"),
    "symlink with content": _last(type=SYMLINK, link="/etc/passwd"),
}  # fmt: skip

KINDS: Mapping[str, Attack] = {
    "character device": _before(Member("files/x", type=CHARACTER, device=b"0000001\0")),
    "block device": _before(Member("files/x", type=BLOCK_DEVICE, device=b"0000010\0")),
    "named pipe": _before(Member("files/x", type=FIFO)),
    "named pipe in place of a file": _of_a_type(FIFO),
    "directory": _before(Member("files/x", type=DIRECTORY, mode=0o777)),
    "directory in place of a file": _of_a_type(DIRECTORY),
    "contiguous file": _of_a_type("7"),
    "file of the oldest tar": _of_a_type("\0"),
    "unknown type": _of_a_type("Z"),
    "type that is no letter": _of_a_type("\xff"),
    "part of another volume": _of_a_type("M"),
    "name of a volume": _before(Member("volume", type="V")),
    "listing of a directory": _before(Member("files", b"Yplanted\0", type="D")),
    "access control list of Solaris": _before(Member("acl", b"x", type="A")),
    "set-user-id": _last(mode=0o4755),
    "set-group-id": _last(mode=0o2755),
    "sticky and open to all": _last(mode=0o1777),
    "executable without saying so": _last(mode=0o755),
    "owner": _last(uid=1000, gid=1000),
    "negative owner": _last(uid=base_256(-2, 8)),
    "owner by name": _last(user=b"root", group=b"root"),
    "time": _last(mtime=1),
    "negative time": _last(mtime=base_256(-1, 12)),
    "time beyond the end of time": _last(mtime=base_256(2**80, 12)),
}  # fmt: skip

EXTENDED: Mapping[str, Attack] = {
    "pax path": _headed(lambda out: extended(("path", f"{out}/planted".encode()))),
    "pax path that is the right one": lambda good, out: _headed(
        extended(("path", str(good.members[-1].name).encode()))
    )(good, out),
    "pax size that differs (CVE-2025-62518)": _headed(extended(("size", b"1024"))),
    "pax size of zero (CVE-2026-33055)": _headed(extended(("size", b"0"))),
    "negative pax size": _headed(extended(("size", b"-512"))),
    "pax size that is no number": _headed(extended(("size", b"1e3"))),
    "pax link": _headed(extended(("linkpath", b"/etc/passwd"))),
    "pax for the whole archive": _headed(extended(("path", b"../planted"), kind=PAX_GLOBAL)),
    "pax attributes": _headed(extended(("SCHILY.xattr.security.capability", b"\1\0\0\2"))),
    "pax character set": _headed(extended(("hdrcharset", b"BINARY"), ("path", b"\xff"))),
    "pax record of length 0 (CVE-2019-20907)": _headed(Member("x", b"0 path=x\n", type="x").encode()),
    "pax record beyond its end": _headed(Member("x", b"999999 path=x\n", type="x").encode()),
    "pax record with a null": _headed(extended(("path", b"files/x\0../planted"))),
    "pax record twice": _headed(extended(("path", b"a"), ("path", b"../planted"))),
    "pax header that claims gigabytes": _headed(Member("x", b"", type="x", size=7 << 30).encode()),
    "pax header of a megabyte": _headed(Member("x", pax_records([("comment", b"x" * (1 << 20))]), type="x").encode()),
    "pax sparse file": _headed(extended(("GNU.sparse.major", b"1"), ("GNU.sparse.name", b"../planted"))),
    "pax sparse map that lies": _headed(extended(("GNU.sparse.size", b"9" * 18), ("GNU.sparse.map", b"0,0"))),
    "sparse file of GNU": _of_a_type("S"),
    "long name of GNU": _headed(lambda out: long_name(f"{out}/planted".encode())),
    "long name of GNU, too long": _headed(long_name(b"x" * (1 << 16))),
    "long link of GNU": _headed(long_name(b"/etc/passwd", GNU_LONG_LINK)),
    "a thousand long names (recursion)": _headed(long_name(b"x") * 1000),
    "a thousand pax headers (recursion)": _headed(extended(("comment", b"x")) * 1000),
    "pax header without a member": lambda good, _: good.pack(good.members) [: -2 * BLOCK] + extended(("path", b"x")),
}  # fmt: skip

SIZES: Mapping[str, Attack] = {
    "negative size (CVE-2025-8194)": _last(size=base_256(-512, 12)),
    "negative size of the first member": lambda good, _: good.pack(
        [good.members[0].but(size=base_256(-512, 12)), *good.members[1:]]
    ),
    "size with a sign": _last(size=b"-0000000001"),
    "size with underscores": _last(size=b"0_0_0_0_0_1"),
    "size with spaces": _last(size=b"   00000001"),
    "size that is no number": _last(size=b"size!size!!"),
    "size of 8 EiB": _last(size=base_256(2**63, 12)),
    "size beyond all bounds": _last(size=base_256(2**87, 12)),
    "size of 8 GiB": _last(size=b"77777777777"),
    "size of a manifest of 8 GiB": lambda good, _: good.pack(
        [good.members[0], good.members[1].but(size=b"77777777777"), *good.members[2:]]
    ),
    "size of the first member of 8 GiB": lambda good, _: good.pack(
        [good.members[0].but(size=b"77777777777"), *good.members[1:]]
    ),
    "size of one byte more": lambda good, out: _last(size=len(good.members[-1].data) + 1)(good, out),
    "size of one byte less": lambda good, out: _last(size=len(good.members[-1].data) - 1)(good, out),
    "size of zero": _last(size=0),
    "wrong checksum": _last(checksum=b"000000\0 "),
    "empty checksum": _last(checksum=b" " * 8),
    "magic of another format": _last(magic=b"ustar!00"),
    "magic of none": _last(magic=bytes(8)),
    "device numbers of a file": _last(device=b"0000007\0"),
}  # fmt: skip

STREAMS: Mapping[str, Attack] = {
    "empty file": _bytes(lambda _: b""),
    "zeros": _bytes(lambda data: bytes(len(data))),
    "end without a beginning": _bytes(lambda _: bytes(2 * BLOCK)),
    "noise": _bytes(lambda data: bytes((i * i * 7 + 13) % 251 for i in range(len(data)))),
    "text": _bytes(lambda _: b"#!/bin/sh\necho owned\n" * 99),
    "zip archive": _bytes(lambda _: b"PK\x03\x04" + bytes(2000)),
    "script before it (polyglot)": _bytes(lambda data: b"#!/bin/sh\n".ljust(BLOCK, b"#") + data),
    "cut in the first header": _bytes(lambda data: data[:100]),
    "cut after the first header": _bytes(lambda data: data[:BLOCK]),
    "cut in the middle": _bytes(lambda data: data[: len(data) // 2]),
    "cut before its end": lambda good, _: b"".join(each.encode() for each in good.members),
    "cut in its end": lambda good, _: b"".join(each.encode() for each in good.members) + bytes(BLOCK),
    "one byte too few": _bytes(lambda data: data[:-1]),
    "one byte too many": _bytes(lambda data: data + b"\0"),
    "something after its end": _bytes(lambda data: data + b"trailing"),
    "another archive after its end (CVE-2025-45582)": _bytes(lambda data: data + data),
    "blocks of zeros after its end": _bytes(lambda data: data + bytes(20 * BLOCK)),
    "block of zeros between members": lambda good, _: good.pack(
        [*good.members[:-1], good.members[-1].but(before=bytes(BLOCK))]
    ),
    "end between members": lambda good, _: good.pack(
        [*good.members[:-1], good.members[-1].but(before=bytes(2 * BLOCK))]
    ),
    "something in the padding": _last(after=b"\1"),
    "block of another kind between members": _last(before=b"x" * BLOCK),
    "last member twice": _members(lambda members: [*members, members[-1]]),
    "first member twice": _members(lambda members: [members[0], *members]),
    "all members twice": _members(lambda members: [*members, *members]),
    "no first member": _members(lambda members: members[1:]),
    "no second member": _members(lambda members: [members[0], *members[2:]]),
    "no last member": _members(lambda members: members[:-1]),
    "only the first member": _members(lambda members: members[:1]),
    "a member more": _members(lambda members: [*members, Member("zzz", b"planted")]),
    "ten thousand members more": _members(lambda members: [*members, *[Member("zzz")] * 10_000]),
    "backwards": _members(lambda members: [members[0], *members[:0:-1]]),
    "contents exchanged": _members(_swapped_contents),
    "names exchanged": _members(_swapped_names),
    "members of equal size exchanged": _members(lambda members: [*members[:-2], members[-1], members[-2]]),
    "content of zeros": lambda good, out: _last(data=bytes(len(good.members[-1].data)))(good, out),
    "headers of the other tar": lambda good, _: good.pack(
        [each.but(magic=GNU_MAGIC if each.magic != GNU_MAGIC else b"ustar\x0000") for each in good.members]
    ),
}  # fmt: skip

STRUCTURES: Mapping[str, Attack] = {**NAMES, **LINKS, **KINDS, **EXTENDED, **SIZES, **STREAMS}
"""Attacks on how an archive is laid out; each works on archives of both kinds."""
