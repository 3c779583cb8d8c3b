"""What the archive of a run holds, and under which names (docs/internals/formats/archive.md)."""

import tarfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dis_derivations.runs.left_out import LEFT_OUT_DOCUMENT, LeftOut, document
from dis_store import canonical_json
from dis_store.closures import closure
from dis_store.contents import MAX_FILES, resolve_all
from dis_store.digest import Digest
from dis_store.errors import DisError, IntegrityError
from dis_store.layout import Layout
from dis_store.tree import Tree

FORMAT = 1
# Of an archive that lacks some files; whole ones stay what they were.
FORMAT_WITH_GAPS = 2
TYPE = "run-archive"
HEADER = "archive.json"
MANIFESTS, OBJECTS, RUN = "manifests/", "objects/", "run/"
# The length of a tar archive is a multiple of this.
RECORD_BYTES = tarfile.RECORDSIZE
# Far more than any run has; each costs an inode where an archive is unpacked.
MAX_MEMBERS = 100_000
# Another level would be other bytes; `dis_store.archives.compression` has that of Zstandard.
GZIP_LEVEL = 6

# How the name of an archive ends that is to be written.
SUFFIXES = (".tar.gz", ".tar.zst")

# Where nothing is: paths of objects are computed here and never opened.
_NOWHERE = Layout(Path("/"))


@dataclass(frozen=True)
class Member:
    """One file of an archive.

    Attributes:
        name: Its name in the archive.
        size: Bytes.
        blake3: The digest of its content.
        owner: The object whose own file it is.
        path: Where that object has it.
        shown: Where the bundle shows it; None for a file of another object that it does not show.
        data: Its content, where no object has it.
    """

    name: str
    size: int
    blake3: Digest
    owner: Digest
    path: str
    shown: str | None
    data: bytes | None = None


def header(bundle: Digest, gaps: Sequence[LeftOut] = ()) -> bytes:
    """Return the content of `archive.json`, of a bundle of which some files are left out or none."""
    fields = {"type": TYPE, "format": FORMAT, "bundle": str(bundle)}
    if not gaps:
        return canonical_json.encode(fields)
    listed = [each.to_json() for each in gaps]
    return canonical_json.encode({**fields, "format": FORMAT_WITH_GAPS, "left_out": listed})


def manifest_name(digest: Digest) -> str:
    """Return the name of an object's tree manifest."""
    return f"{MANIFESTS}{digest}.json"


def information(name: str, size: int) -> tarfile.TarInfo:
    """Return what tar says of a member: no owner, no time, one mode."""
    described = tarfile.TarInfo(name)
    described.size = size
    described.mode = 0o644
    described.mtime = 0
    return described


def member_header(name: str, size: int) -> bytes:
    """Return the blocks that stand before a member: more than one where its name or size need it."""
    return information(name, size).tobuf(tarfile.PAX_FORMAT)


def lookup(trees: Mapping[Digest, Tree]) -> Callable[[Digest], Tree]:
    """Return how trees are found by their digests; a missing one is an `IntegrityError`."""

    def find(digest: Digest) -> Tree:
        if digest not in trees:
            raise IntegrityError(f"there is no tree manifest of the object {digest}")
        return trees[digest]

    return find


def closure_of(bundle: Digest, trees: Callable[[Digest], Tree]) -> list[Digest]:
    """Return the bundle with all objects that it refers to."""
    return closure([bundle], lambda each: {entry.object for entry in trees(each).references})


def members(bundle: Digest, trees: Callable[[Digest], Tree]) -> list[Member]:
    """Return the files of an archive, beside header and manifests, in the order they stand in it.

    Each file that the bundle shows is there under `run/`, and each other file of an object that it refers to
    under `objects/`: nothing of the closure is missing.

    Raises:
        IntegrityError: A tree is missing, the references lead to objects over and over again, or there are more than
            `MAX_MEMBERS`.
    """
    _check_ways(bundle, trees)
    shown = [
        Member(f"{RUN}{file.path}", file.size, file.blake3, file.owner, path, file.path)
        for file in resolve_all(bundle, trees, _NOWHERE)
        for path in [file.real.relative_to(_NOWHERE.object(file.owner)).as_posix()]
    ]
    seen = {(member.owner, member.path) for member in shown}
    hidden = [
        Member(f"{OBJECTS}{digest}/{file.path}", file.size, file.blake3, digest, file.path, None)
        for digest in closure_of(bundle, trees)
        for file in trees(digest).files
        if (digest, file.path) not in seen
    ]
    if len(shown) + len(hidden) > MAX_MEMBERS:
        raise IntegrityError(
            f"the bundle {bundle} is refused",
            cause=f"with all it refers to it has more than {MAX_MEMBERS} files",
        )
    return sorted([*hidden, *shown], key=lambda member: member.name.encode())


def divided(
    bundle: Digest, trees: Callable[[Digest], Tree], missing: Collection[str]
) -> tuple[list[Member], list[LeftOut]]:
    """Return the files of an archive that leaves some out, and what it leaves out, sorted by path.

    `run/left_out.json` is among the files then, so that `run/` alone says what it lacks.

    Args:
        bundle: The run.
        trees: Its closure.
        missing: The paths in the bundle that are left out, where it has them.

    Raises:
        IntegrityError: As `members`, or the bundle shows something in the place of that document.
    """
    every = members(bundle, trees)
    gaps = [
        LeftOut(each.shown, each.size, each.blake3, each.owner, each.path)
        for each in every
        if each.shown is not None and each.shown in missing
    ]
    if not gaps:
        return every, gaps
    gaps.sort(key=lambda each: each.path)
    name = f"{RUN}{LEFT_OUT_DOCUMENT}"
    if any(each.name == name or each.name.startswith(f"{name}/") for each in every):
        raise IntegrityError(f"the bundle {bundle} is refused", cause=f"it has a {name} of its own")
    data = document(bundle, gaps)
    shown = LEFT_OUT_DOCUMENT
    extra = Member(name, len(data), Digest.of(data), bundle, shown, shown, data)
    kept = [each for each in every if each.shown is None or each.shown not in missing]
    return sorted([*kept, extra], key=lambda member: member.name.encode()), gaps


def _check_ways(bundle: Digest, trees: Callable[[Digest], Tree]) -> None:
    """Refuse trees through which there are more ways than could be walked: a few could make 2^64."""
    ways: dict[Digest, int] = {}
    for digest in closure_of(bundle, trees):
        ways[digest] = 1 + sum(ways[entry.object] for entry in trees(digest).references)
    if ways[bundle] > MAX_FILES:
        raise IntegrityError(f"the references of {bundle} lead more than {MAX_FILES} ways")


def check_content(member: Member, found: str, where: str, error: type[DisError]) -> None:
    """Refuse bytes that are not what the tree manifest says.

    Raises:
        DisError: Of the class `error`.
    """
    if found != member.blake3:
        raise error(
            f"{member.name} of {where} is not what it must be",
            cause=f"its digest is {found}, and the tree manifest says {member.blake3}",
        )
