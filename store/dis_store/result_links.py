"""Result links: symlinks outside the store that lead to an object and keep it.

A record `roots/auto/<id>.json` says where the link is. The link counts for as long as it is there and names an object,
by the last component of what it leads to: so it also counts in a store that was moved, or that a container sees
elsewhere.
"""

import contextlib
import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from dis_store.digest import Digest
from dis_store.durability import fsync_directory
from dis_store.environment import reading
from dis_store.errors import IntegrityError, InvalidInputError, UnfitEnvironmentError
from dis_store.foundation import Foundation, missing
from dis_store.layout import Layout
from dis_store.records import decode_record, encode_record, write_record
from dis_store.roots import Root, root_from_json, stamped

FORMAT = 1


@dataclass(frozen=True)
class ResultLink:
    """A symlink outside the store.

    Attributes:
        link: Where it is.
        root: What it was made for.
        target: The object that it names now, None if it is gone or leads elsewhere.
        record: The file in the store that tells of it.
    """

    link: Path
    root: Root
    target: Digest | None
    record: Path

    @property
    def kept(self) -> Root | None:
        """What it keeps now; None if it is gone or leads elsewhere."""
        if self.target is None:
            return None
        return self.root if self.root.object == self.target else Root(self.target)


def add(foundation: Foundation, link: Path, root: Root) -> None:
    """Make `link` a symlink to the object of `root`, and keep the object while it is there.

    Raises:
        IntegrityError: The object is not in the store.
        InvalidInputError: Something that is no result link is at `link`, or it cannot be made.
    """
    foundation.require(root.object)
    place = check_link(link)
    # What a manifest wants of its run's root is about that root; a link stays as long as it stays.
    plain = replace(stamped(root), retention=None, include=())
    document = {**plain.fields(), "link": str(place)}
    record = foundation.layout.result_links / f"{_identity(place)}.json"
    with foundation.locks.sharing():
        if not foundation.is_valid(root.object):
            raise missing(root.object)
        # The record first: a link without one keeps nothing.
        # Under the lock: a collection in between would drop a record whose link is not there yet.
        write_record(foundation, record, encode_record("result-link", FORMAT, document))
        _make_link(place, foundation.layout.object(root.object).absolute())


def read_all(layout: Layout) -> list[ResultLink]:
    """Return all recorded result links.

    Raises:
        IntegrityError: A record is damaged. Nobody may guess what it kept.
    """
    links, damaged = survey_links(layout)
    for error in damaged.values():
        raise error
    return links


def survey_links(layout: Layout) -> tuple[list[ResultLink], dict[Path, IntegrityError]]:
    """Return the result links whose records can be read, and what is wrong with the other records."""
    links: list[ResultLink] = []
    damaged: dict[Path, IntegrityError] = {}
    for path in sorted(layout.result_links.glob("*.json")):
        try:
            links.append(_read(path))
        except FileNotFoundError:  # a collection has dropped it since
            continue
        except IntegrityError as error:
            damaged[path] = IntegrityError(
                error.what,
                cause=f"{path}: {error.cause}",
                hint=f"put the file back from a copy, or give up what it kept: rm {path}",
            )
    return links, damaged


def _read(path: Path) -> ResultLink:
    name = f"the record of a result link {path.name!r}"
    with reading(name):
        data = path.read_bytes()
    document = decode_record(data, kind="result-link", version=FORMAT, name=name)
    link = document.get("link")
    if not isinstance(link, str) or "\0" in link:
        raise IntegrityError(f"{name} is damaged", cause="it does not say where the link is")
    return ResultLink(Path(link), root_from_json(document, name), _named_object(Path(link)), path)


def check_link(link: Path) -> Path:
    """Return the absolute place of a result link that can be made, as far as can be told without making it.

    Raises:
        InvalidInputError: Its name is refused, its directory is not there, or something else is in its place.
        UnfitEnvironmentError: The working directory is gone, or the link's directory refuses.
    """
    shown = str(link).encode("utf-8", "backslashreplace").decode()
    if shown != str(link):
        raise _unmakeable(shown, "its path is not UTF-8")
    try:
        place = link.parent.absolute() / link.name
    except FileNotFoundError as error:
        raise UnfitEnvironmentError(
            f"the result link {link} cannot be made",
            cause="the working directory is gone",
            hint="name an absolute path, or go to a directory that exists: cd",
        ) from error
    try:
        _check_place(place)
    except OSError as error:  # a name that is too long, a directory that may not be entered
        raise _unmakeable(shown, error.strerror) from error
    return place


def _check_place(place: Path) -> None:
    try:
        is_directory = stat.S_ISDIR(place.parent.stat().st_mode)
    except FileNotFoundError:
        raise _unmakeable(str(place), f"there is no directory {place.parent}") from None
    if not is_directory:
        raise _unmakeable(str(place), f"{place.parent} is not a directory")
    if _lexists(place) and _named_object(place) is None:
        raise InvalidInputError(
            f"the result link {place} cannot be made",
            cause="something else is there",
            hint="remove it, or choose another name",
        )
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise _unmakeable(str(place), f"Permission denied: {place.parent}")


def _lexists(place: Path) -> bool:
    """Tell whether anything bears the name; unlike `os.path.lexists`, fail for a name that nothing can bear."""
    try:
        place.lstat()
    except FileNotFoundError:
        return False
    return True


def _unmakeable(shown: str, cause: str | None) -> InvalidInputError:
    return InvalidInputError(
        f"the result link {shown} cannot be made", cause=cause, hint="choose another place for it"
    )


def _named_object(link: Path) -> Digest | None:
    try:
        return Digest(link.readlink().name)
    except (OSError, InvalidInputError):
        return None


def _identity(place: Path) -> str:
    # One record for each place: a link that is made again takes the record of the first.
    return Digest.of(os.fsencode(place))[:32]


def _make_link(place: Path, target: Path) -> None:
    temporary = place.with_name(f".dis-{os.urandom(16).hex()}")
    try:
        temporary.symlink_to(target)
        temporary.replace(place)
        fsync_directory(place.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _unmakeable(str(place), error.strerror) from error
