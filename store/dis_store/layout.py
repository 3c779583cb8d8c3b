"""Where things lie in a store, as paths relative to one directory.

Nothing on disk holds the store's own path, so a store may be moved.
"""

from dataclasses import dataclass
from pathlib import Path

from dis_store import strict_json
from dis_store.digest import Digest
from dis_store.errors import (
    DisError,
    IntegrityError,
    InvalidInputError,
    TooNewError,
    UnfitEnvironmentError,
)

FORMAT = 1
FORMAT_RECORD = b'{"format":%d,"type":"store"}\n' % FORMAT
RESERVE_BYTES = 8 << 20
_NEW_FORMAT = "format.json.new"

_DIRECTORIES = (
    "objects",
    "manifests",
    "derivations",
    "realisations",
    "links",
    "roots/auto",
    "tmp",
    "trash",
    "locks/build",
    "temproots",
    "quarantine",
)
_ROOMS = (*_DIRECTORIES, "roots", "roots/days", "locks", "signatures")
# Trees move between these by rename.
_ON_ONE_DEVICE = ("objects", "manifests", "links", "tmp", "trash", "quarantine")


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """The paths inside the store at `top`."""

    top: Path

    def room(self, name: str) -> Path:
        """Return one of the directories at the top: `objects`, `tmp`, ..."""
        return self.top / name

    def object(self, digest: Digest) -> Path:
        """Return the directory of an object."""
        return self.top.joinpath("objects", digest[:2], digest)

    def manifest(self, digest: Digest) -> Path:
        """Return the file that holds the manifest of an object."""
        return self.top.joinpath("manifests", digest[:2], f"{digest}.json")

    def derivation(self, digest: Digest) -> Path:
        """Return the file that holds a derivation."""
        return self.top.joinpath("derivations", digest[:2], f"{digest}.json")

    def realisations(self, key: Digest) -> Path:
        """Return the directory of the realisation records of a key."""
        return self.top.joinpath("realisations", key[:2], key)

    def signatures(self, key: Digest) -> Path:
        """Return the directory of the signed documents about a key."""
        return self.top.joinpath("signatures", key[:2], key)

    def link(self, blake3: Digest, *, executable: bool) -> Path:
        """Return the name that all equal files of the store share an inode with."""
        name = f"{blake3}-x" if executable else blake3
        return self.top.joinpath("links", blake3[:2], name)

    def root(self, name: str) -> Path:
        """Return the file that holds a named root."""
        return self.top / "roots" / f"{name}.json"

    @property
    def result_links(self) -> Path:
        """The directory of the records of result links."""
        return self.top / "roots" / "auto"

    @property
    def index(self) -> Path:
        """The SQLite index."""
        return self.top / "index.sqlite"

    @property
    def reserve(self) -> Path:
        """The file that garbage collection gives up first, so that it can work on a full disk."""
        return self.top / "reserve"


def open_layout(top: Path, *, create: bool, touch: bool = True) -> Layout:
    """Return the layout of the store at `top`, made first if there is none and `create` is set.

    Args:
        top: The directory.
        create: Whether to make a store where there is none.
        touch: Whether to make directories that an existing store lacks.

    Raises:
        InvalidInputError: There is no store, and `create` is not set or the place is taken by something else.
        IntegrityError: The record of its format is lost or damaged, or a directory in it is a symlink.
        UnfitEnvironmentError: The store was written by a newer version, or spans several devices.
    """
    layout = Layout(top)
    if not (top / "format.json").is_file():
        if _has_rooms(top):
            raise _without_format(top, f"{top / 'format.json'} is missing")
        if not create:
            raise InvalidInputError(
                f"there is no store at {top}", hint="check --store and DIS_STORE"
            )
        _initialise(layout)
    _check_format(top)
    _check_rooms(top)
    if not touch:
        return layout
    for name in _DIRECTORIES:
        (top / name).mkdir(parents=True, exist_ok=True)
    devices = {(top / name).stat().st_dev for name in _ON_ONE_DEVICE}
    if len(devices) > 1:
        raise UnfitEnvironmentError(
            f"the store {top} lies on several file systems",
            cause=f"{', '.join(_ON_ONE_DEVICE)} must share one, because trees are renamed between them",
        )
    return layout


def _check_rooms(top: Path) -> None:
    """Refuse a room that leads elsewhere: what is done in it would be done there.

    Raises:
        IntegrityError: One of them is a symlink.
    """
    for name in _ROOMS:
        if (top / name).is_symlink():
            raise IntegrityError(
                f"the store {top} is not as it was made",
                cause=f"{top / name} is a symlink, and must be a directory",
                hint="put the directory itself in its place",
            )


def _initialise(layout: Layout) -> None:
    # Imported here: an existing store, the common case, needs neither.
    from dis_store.durability import write_durably
    from dis_store.locks import locked_directory
    from dis_store.platform_linux import is_network_file_system

    top = layout.top
    try:
        top.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidInputError(
            f"{top} cannot be a store", cause="it is not a directory"
        ) from error
    if is_network_file_system(top):
        raise UnfitEnvironmentError(
            f"{top} cannot be a store",
            cause="it lies on a network file system, where locks and the index are not safe",
            hint="choose a local directory with --store or DIS_STORE",
        )
    # Two processes may create one store at once: the second waits here and finds it made.
    with locked_directory(top):
        present = {entry.name for entry in top.iterdir()} - {_NEW_FORMAT, "reserve", "lost+found"}
        if "format.json" in present:
            return
        if present:
            raise InvalidInputError(
                f"{top} is not a store",
                cause="it is not empty",
                hint="name another directory with --store",
            )
        fill_reserve(layout)
        write_durably(top / _NEW_FORMAT, top / "format.json", FORMAT_RECORD)


def fill_reserve(layout: Layout) -> None:
    """Make the reserve file, of real blocks: a sparse file would hold nothing back.

    Raises:
        OSError: There is no room for it; what was written is taken back.
    """
    try:
        layout.reserve.write_bytes(b"\x00" * RESERVE_BYTES)
    except OSError:
        layout.reserve.unlink(missing_ok=True)
        raise


def _check_format(top: Path) -> None:
    path = top / "format.json"
    try:
        record = strict_json.decode(path.read_bytes(), name=str(path))
    except InvalidInputError as error:
        raise _without_format(top, str(error)) from error
    if not isinstance(record, dict) or record.get("type") != "store":
        raise _without_format(top, f"{path} says something else")
    found = record.get("format")
    if type(found) is not int or found < 1:
        raise _without_format(top, f"the format in {path} is {found!r:.80}")
    if found > FORMAT:
        raise TooNewError(
            f"the store {top} is too new for this version of dis",
            cause=f"it has format {found}, and this version knows formats up to {FORMAT}",
            hint="upgrade dis, or name another store with --store",
        )


def _has_rooms(top: Path) -> bool:
    """Tell whether a directory holds what only a store holds."""
    return all((top / name).is_dir() for name in _ON_ONE_DEVICE)


def _without_format(top: Path, cause: str) -> DisError:
    """Return the error for a directory that does not say that it is a store."""
    if not _has_rooms(top):
        return InvalidInputError(
            f"{top} is not a store", cause=cause, hint="name another directory with --store"
        )
    import shlex

    record, path = FORMAT_RECORD.decode().rstrip(), shlex.quote(str(top / "format.json"))
    return IntegrityError(
        f"the store {top} does not say which format it has",
        cause=cause,
        hint=f"put back a copy, or if this version of dis made the store: "
        f"rm -f {path}; echo '{record}' > {path}",
    )
