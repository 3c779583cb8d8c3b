"""Documents of archives that lie, each named after its lie, and archives that are whole but for them."""

from collections.abc import Mapping
from typing import Any

from dis_store import canonical_json
from dis_store.digest import Digest
from evil_archives import Good
from tar_bytes import GNU_MAGIC, POSIX_MAGIC, Member, dumped

CONTENT = b"the content"
A = str(Digest.of(CONTENT))
B = str(Digest.of(b"of nothing"))
_RECORDS = {"closures": 512, "run": 10240}
_MAGIC = {"closures": GNU_MAGIC, "run": POSIX_MAGIC}


def _entry(**fields: Any) -> dict[str, Any]:
    entry = {"blake3": A, "path": "bundle.json", "size": len(CONTENT), **fields}
    return {key: value for key, value in entry.items() if value is not None}


def _reference(**fields: Any) -> dict[str, Any]:
    return {"object": B, "path": "bundle.json", **fields}


def _manifest(*entries: Any, **fields: Any) -> bytes:
    document = {"entries": list(entries), "format": 1, "type": "tree", **fields}
    return dumped({key: value for key, value in document.items() if value is not None})


GOOD_MANIFEST = _manifest(_entry())

_PATHS = {
    "that climbs out (CVE-2007-4559)": "../planted",
    "that climbs out from inside": "a/../../planted",
    "that stands still": "a/./b",
    "that is absolute": "/planted",
    "that is empty": "",
    "with an empty part": "a//b",
    "that ends with a slash": "a/",
    "that is only dots": "..",
    "with backslashes (restic 1445)": "..\\planted",
    "with a drive": "C:planted",
    "with a stream": "a:b",
    "of a device": "aux.txt",
    "of a numbered device": "COM\u00b9",
    "with a space at its end": "a ",
    "with a full stop at its end": "a.",
    "with a null": "a\0b",
    "with a new line": "a\nerror: forged",
    "with an escape (CVE-2023-30844)": "a\x1b[2J",
    "with an 8-bit escape": "a\x9b2J",
    "that reads backwards": "a\u202egnp.exe",
    "with half a character": "a\ud800",
    "of separated form": "e\u0301",
    "of wide dots": "\uff0e\uff0e",
    "of a wide slash": "a\uff0fb",
    "of 256 bytes": "x" * 256,
    "of 65 levels (CVE-2026-44028)": "/".join("d" * 65),
    "of 4000 bytes": "/".join(["x" * 250] * 16),
    "for a shell": "$(id)|x",
}

_PAIRS = {
    "only by case (CVE-2021-21300)": ("A", "a"),
    "only by case of a directory (CVE-2024-32002)": ("A/x", "a/y"),
    "only by a sharp s (CVE-2026-23950)": ("stra\u00dfe", "strasse"),
    "only by a Kelvin sign": ("K", "\u212a"),
    "only by a ligature": ("fi", "\ufb01"),
    "only by a long s": ("s", "\u017f"),
    "not at all": ("a", "a"),
    "by what is below a file": ("a", "a/b"),
}


def _pair(one: str, other: str) -> bytes:
    entries = [_entry(path=path) for path in (one, other)]
    return _manifest(*sorted(entries, key=lambda entry: entry["path"].encode()))


MANIFESTS: Mapping[str, bytes] = {
    **{f"path {name}": _manifest(_entry(path=path)) for name, path in _PATHS.items()},
    **{f"reference {name}": _manifest(_reference(path=path)) for name, path in _PATHS.items()},
    **{f"two paths that differ {name}": _pair(*pair) for name, pair in _PAIRS.items()},
    "path that is a number": _manifest(_entry(path=1)),
    "path that is a list": _manifest(_entry(path=["a"])),
    "no path": _manifest(_entry(path=None)),
    "paths out of order": _manifest(_entry(path="b"), _entry(path="a")),
    "more bytes than there are": _manifest(_entry(size=len(CONTENT) + 1)),
    "fewer bytes than there are": _manifest(_entry(size=len(CONTENT) - 1)),
    "no bytes": _manifest(_entry(size=0)),
    "two sizes of one content": _manifest(_entry(path="a"), _entry(path="b", size=1)),
    "negative size": _manifest(_entry(size=-1)),
    "size of a half": _manifest(_entry(size=1.5)),
    "size that is true": _manifest(_entry(size=True)),
    "size in quotes": _manifest(_entry(size="11")),
    "size beyond doubles": _manifest(_entry(size=2**53)),
    "size beyond words": _manifest(_entry(size=2**70)),
    "size with an exponent": GOOD_MANIFEST.replace(b'"size":11', b'"size":1.1e1'),
    "size of thousands of digits": GOOD_MANIFEST.replace(b'"size":11', b'"size":' + b"1" * 5000),
    "size beyond numbers": GOOD_MANIFEST.replace(b'"size":11', b'"size":1e999'),
    "size that is not a number": GOOD_MANIFEST.replace(b'"size":11', b'"size":NaN'),
    "digest of something else": _manifest(_entry(blake3=B)),
    "digest in capitals": _manifest(_entry(blake3=A.upper())),
    "digest that is short": _manifest(_entry(blake3=A[:32])),
    "digest with its kind": _manifest(_entry(blake3=f"blake3:{A}")),
    "digest that is a path (CVE-2024-3727)": _manifest(_entry(blake3="../../../planted")),
    "digest with a new line": _manifest(_entry(blake3=f"{A}\n")),
    "digest that is a number": _manifest(_entry(blake3=1)),
    "no digest": _manifest(_entry(blake3=None)),
    "reference to nothing": _manifest(_reference()),
    "reference that is a path": _manifest(_reference(object="../../../planted")),
    "reference into what climbs out": _manifest(_reference(subpath="../x")),
    "reference into nothing": _manifest(_reference(subpath="")),
    "reference and content": _manifest({**_entry(), **_reference()}),
    "executable that is false": _manifest(_entry(executable=False)),
    "executable that is a word": _manifest(_entry(executable="yes")),
    "mode": _manifest(_entry(mode=0o4755)),
    "link": _manifest(_entry(link="/etc/passwd")),
    "entry that is a text": _manifest("bundle.json"),
    "entry that is nothing": _manifest({}),
    "entries that are an object": _manifest(entries={"path": _entry()}),
    "entries that are a text": _manifest(entries="abc"),
    "no entries": _manifest(entries=None),
    "another type": _manifest(_entry(), type="derivation"),
    "no type": _manifest(_entry(), type=None),
    "newer format": _manifest(_entry(), format=2),
    "format that is true": _manifest(_entry(), format=True),
    "format of a half": GOOD_MANIFEST.replace(b'"format":1', b'"format":1.0'),
    "unknown field": _manifest(_entry(), mediaType="application/json"),
    "portable names that are true": _manifest(_entry(), portable_names=True),
    "portable names that are 0": _manifest(_entry(), portable_names=0),
    "list": b"[%s]" % GOOD_MANIFEST,
    "null": b"null",
    "nothing": b"",
    "key twice (CVE-2017-12635)": GOOD_MANIFEST.replace(b'{"entries"', b'{"entries":[],"entries"'),
    "key of an entry twice": GOOD_MANIFEST.replace(b'"path"', b'"path":"../x","path"'),
    "key twice, once as an escape": GOOD_MANIFEST.replace(b'"path"', b'"p\\u0061th":"../x","path"'),
    "escape that need not be": GOOD_MANIFEST.replace(b"bundle", b"b\\u0075ndle"),
    "escaped slash": _manifest(_entry(path="a/b")).replace(b"a/b", b"a\\/b"),
    "space": GOOD_MANIFEST.replace(b":11", b": 11"),
    "new line at its end": GOOD_MANIFEST + b"\n",
    "two documents": GOOD_MANIFEST * 2,
    "byte order mark": b"\xef\xbb\xbf" + GOOD_MANIFEST,
    "UTF-16": GOOD_MANIFEST.decode().encode("utf-16"),
    "Latin-1": GOOD_MANIFEST.replace(b"bundle", b"b\xfcndle"),
    "overlong UTF-8": GOOD_MANIFEST.replace(b"bundle", b"..\xc0\xaf"),
    "comma too many": GOOD_MANIFEST.replace(b"}]", b"},]"),
    "comment": GOOD_MANIFEST.replace(b"[{", b"[/* */{"),
    "keys out of order": b'{"format":1,"entries":[],"type":"tree"}',
    "fifty thousand levels": b"[" * 50_000 + b"]" * 50_000,
    "fifty thousand levels in an entry": GOOD_MANIFEST.replace(b":11", b":" + b'{"a":' * 50_000),
    "two million lists (bomb)": b'{"entries":[' + b"[]," * 2_000_000 + b'[]],"format":1,"type":"tree"}',
    "half a million keys (bomb)": b"{%s}" % b",".join(b'"%x":0' % number for number in range(500_000)),
    "string that does not end": GOOD_MANIFEST[:-2],
}  # fmt: skip
"""Tree manifests that are refused, each with the right digest."""


def _closures(*roots: Any, objects: Any = 1, **fields: Any) -> bytes:
    document = {"type": "closures", "format": 1, "roots": list(roots), "objects": objects, **fields}
    return dumped({key: value for key, value in document.items() if value is not None})


_C = str(Digest.of(GOOD_MANIFEST))
CLOSURE_HEADERS: Mapping[str, bytes] = {
    "no roots": _closures(),
    "root that is not there": _closures(B),
    "root twice": _closures(_C, _C),
    "roots out of order": _closures(*sorted((_C, B), reverse=True), objects=2),
    "root that is a path": _closures("../../planted"),
    "root that is a number": _closures(1),
    "roots that are a text": _closures(roots=_C),
    "roots that are nothing": _closures(roots=None),
    "fewer objects": _closures(_C, objects=0),
    "more objects": _closures(_C, objects=2),
    "negative objects": _closures(_C, objects=-1),
    "objects beyond counting": _closures(_C, objects=2**53 - 1),
    "objects of a half": _closures(_C, objects=1.5),
    "objects in quotes": _closures(_C, objects="1"),
    "objects in letters": _closures(_C, objects="one"),
    "objects that are true": _closures(_C, objects=True),
    "objects that are a list": _closures(_C, objects=[1]),
    "another type": _closures(_C, type="run-archive"),
    "no type": _closures(_C, type=None),
    "format that is nothing": _closures(_C, format=None),
    "format in quotes": _closures(_C, format="2"),
    "format of zero": _closures(_C, format=0),
    "format that is true": _closures(_C, format=True),
    "unknown field": _closures(_C, more=1),
    "space": _closures(_C).replace(b":1,", b": 1,"),
    "key twice": _closures(_C).replace(b'"objects"', b'"objects":9,"objects"'),
    "not JSON": b"closures",
    "list": b"[]",
    "fifty thousand levels": b"[" * 50_000,
}

_RUN = {"type": "run-archive", "format": 1, "bundle": _C}
RUN_HEADERS: Mapping[str, bytes] = {
    "bundle that is not there": dumped({**_RUN, "bundle": B}),
    "bundle that is a path": dumped({**_RUN, "bundle": "../../planted"}),
    "bundle that is a number": dumped({**_RUN, "bundle": 1}),
    "bundle that is nothing": dumped({**_RUN, "bundle": None}),
    "another type": dumped({**_RUN, "type": "closures"}),
    "format that is nothing": dumped({**_RUN, "format": None}),
    "format in quotes": dumped({**_RUN, "format": "2"}),
    "format of zero": dumped({**_RUN, "format": 0}),
    "format that is true": dumped({**_RUN, "format": True}),
    "unknown field": dumped({**_RUN, "more": 1}),
    "space": dumped(_RUN).replace(b":1,", b": 1,"),
    "key twice": dumped(_RUN).replace(b'"format"', b'"format":2,"format"'),
    "not JSON": b"run",
    "list": b"[]",
    "too long": dumped({**_RUN, "more": "x" * 5000}),
}


def whole(
    kind: str, header: bytes, *manifests: bytes, contents: tuple[bytes, ...] = (CONTENT,)
) -> Good:
    """Return an archive of documents and contents, laid out as it should be."""
    found = sorted((str(Digest.of(data)), data) for data in manifests)
    members = [
        ("archive.json", header),
        *((f"manifests/{name}.json", data) for name, data in found),
    ]
    if kind == "closures":
        members += sorted((f"files/{Digest.of(data)}", data) for data in contents)
    else:
        members += [("run/bundle.json", data) for data in contents]
    magic = _MAGIC[kind]
    return Good(
        kind, tuple(Member(name, data, magic=magic) for name, data in members), _RECORDS[kind]
    )


def header_for(kind: str, *manifests: bytes, root: bytes | None = None) -> bytes:
    """Return the header of an archive of these manifests; `root`, or else the first, is what it is of."""
    digest = str(Digest.of(manifests[0] if root is None else root))
    if kind == "closures":
        return _closures(digest, objects=len(set(manifests)))
    return dumped({**_RUN, "bundle": digest})


def with_manifest(kind: str, manifest: bytes) -> bytes:
    """Return an archive that is whole but for its only manifest."""
    return whole(kind, header_for(kind, manifest), manifest).data


def with_header(kind: str, header: bytes) -> bytes:
    """Return an archive that is whole but for its first member."""
    return whole(kind, header, GOOD_MANIFEST).data


def _chained(length: int) -> list[bytes]:
    manifests = [GOOD_MANIFEST]
    for _ in range(length):
        manifests.append(_manifest(_reference(object=str(Digest.of(manifests[-1])))))
    return manifests


def top_of_chain(length: int) -> str:
    """Return the digest of the last object of `chain`."""
    return str(Digest.of(_chained(length)[-1]))


def chain(kind: str, length: int) -> bytes:
    """Return an archive of objects each of which refers to the one before."""
    manifests = _chained(length)
    return whole(kind, header_for(kind, *manifests, root=manifests[-1]), *manifests).data


def fan(kind: str, levels: int) -> bytes:
    """Return an archive of objects through which two to the power of `levels` ways lead."""
    manifests = [canonical_json.encode({"entries": [], "format": 1, "type": "tree"})]
    for _ in range(levels):
        below = str(Digest.of(manifests[-1]))
        entries = (_reference(path=path, object=below) for path in ("a", "b"))
        manifests.append(_manifest(*entries))
    header = header_for(kind, *manifests, root=manifests[-1])
    return whole(kind, header, *manifests, contents=()).data


def nested(kind: str) -> bytes:
    """Return an archive whose objects put a file deeper together than any of them may."""
    deep = "/".join("d" * 60)
    inner = _manifest(_entry(path=f"{deep}/bundle.json"))
    outer = _manifest(_reference(path=f"{deep}/x", object=str(Digest.of(inner))))
    return whole(kind, header_for(kind, outer, inner), outer, inner).data


def wide(kind: str, entries: int) -> bytes:
    """Return an archive of one object with many files in as many deep directories."""
    deep = "/".join("d" * 50)
    paths = sorted(f"{number:x}/{deep}/f" for number in range(entries))
    manifest = _manifest(*(_entry(path=path) for path in paths))
    return whole(kind, header_for(kind, manifest), manifest).data
