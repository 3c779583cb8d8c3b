"""Objects of a repository on their way into the store: every content compared with both its digests, then registered.

What has come stays when the rest does not, and the next call goes on from there.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from dis_derivations.distribution.files_archive import unpack
from dis_derivations.distribution.joining import JoinedFile, joined_key, take_equal_parts
from dis_derivations.distribution.object_documents import RemoteObject
from dis_derivations.distribution.workers import Stop, work_on
from dis_derivations.registry.client import BLOBS_AT_ONCE, RegistryClient
from dis_derivations.registry.documents import Descriptor
from dis_derivations.registry.errors import RegistryMismatchError
from dis_derivations.registry.reference import RegistryReference
from dis_derivations.registry.uploads import blob_of_file
from dis_derivations.transport.transfer import Listener
from dis_store import Store
from dis_store.archives.received_objects import register_received
from dis_store.closures import closure
from dis_store.digest import Digest, Sha256
from dis_store.environment import reported
from dis_store.foundation import Foundation
from dis_store.hashing import Content, ContentHasher, hash_content
from dis_store.integrity.inspection import FILE_MODE
from dis_store.platform_linux import write_all
from dis_store.stored_files import files_of_size, open_stored
from dis_store.work_progress import Progress, counter
from dis_store.writing.downloads import Download, downloading, finish
from dis_store.writing.work_space import WorkSpace, work_space

_SMALL = 1 << 20
# So short a content is sooner fetched again than kept for the next process.
_NOT_KEPT = 16 << 10


def receive(
    store: Store,
    client: RegistryClient,
    reference: RegistryReference,
    objects: Mapping[Digest, RemoteObject],
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> list[Digest]:
    """Bring objects into the store, those first that others refer to; return them in that order.

    Args:
        store: The store, which has all that they refer to beside each other.
        client: Who fetches.
        reference: Names the repository.
        objects: What is not in the store.
        progress: Told of the bytes that came.
        stop: Set when the user asks to stop.

    Raises:
        IntegrityError: Something is not what its digest says; none of it is registered.
        RegistryRefusedError, TransferError: Something cannot be had.
        DiskFullError: There is no room.
    """
    with reported(store.path), work_space(store.path / "tmp") as space:
        arrival = _Arrival(store, client, reference, space, stop or Stop())
        contents = arrival.fetch(list(objects.values()), progress)
        ordered = closure(
            list(objects),
            lambda digest: {
                entry.object for entry in objects[digest].tree.references if entry.object in objects
            },
        )
        for digest in ordered:
            register_received(store, digest, objects[digest].tree, contents, space)
        arrival.forget()
    return ordered


class _Arrival:
    """Contents on their way into a work space, each under its BLAKE3."""

    def __init__(
        self,
        store: Store,
        client: RegistryClient,
        reference: RegistryReference,
        space: WorkSpace,
        stop: Stop,
    ) -> None:
        self._store = store
        self._client = client
        self._reference = reference
        self._space = space
        self._stop = stop
        self._downloads: list[Digest] = []

    @property
    def _foundation(self) -> Foundation:
        return self._store.new_tree().foundation

    def fetch(
        self, objects: Sequence[RemoteObject], progress: Progress | None
    ) -> Mapping[Digest, Content]:
        """Fetch the contents of all files; return what each was found to be."""
        files: dict[Digest, Descriptor] = {}
        for each in objects:
            files.update(each.contents)
        in_parts: dict[Digest, Sequence[Descriptor]] = {}
        for each in objects:
            in_parts.update({key: parts for key, parts in each.parts.items() if key not in files})
        archives = [each for each in objects if each.archive is not None]
        sizes = [blob.size for blob in files.values()]
        sizes += [part.size for parts in in_parts.values() for part in parts]
        sizes += [each.archive.size for each in archives if each.archive is not None]
        # What is on its way to its place in a file has room beside it.
        beside = max((part.size for parts in in_parts.values() for part in parts), default=0)
        room = sum(sizes) + BLOBS_AT_ONCE * beside
        self._store.check_room(room, files=len(files) + len(in_parts) + 1)
        count = counter(progress, sum(sizes))
        foundation = self._foundation

        def fetch(item: tuple[Digest, Descriptor]) -> tuple[Digest, Content]:
            self._stop.check()
            blake3, blob = item
            return blake3, self._content(foundation, blake3, blob, count)

        # The largest first, so that none of them is begun when all others have come.
        ordered = sorted(files.items(), key=lambda item: (-item[1].size, item[0]))
        found = dict(work_on(ordered, fetch, self._stop, jobs=BLOBS_AT_ONCE))
        # One file after the other: its parts come at the same time.
        for blake3, parts in in_parts.items():
            found[blake3] = self._joined(foundation, blake3, parts, count)
        for each in archives:
            found.update(self._unpacked(foundation, each, count))
        return found

    def forget(self) -> None:
        """Give up what is part of objects now."""
        for key in self._downloads:
            finish(self._foundation, key)

    def _content(
        self,
        foundation: Foundation,
        blake3: Digest,
        blob: Descriptor,
        count: Callable[[int], None],
    ) -> Content:
        for stored in open_stored(foundation, blob.digest, blob.size, self._checked_count(count)):
            if stored.content.blake3 == blake3:
                self._take(stored.path, blake3)
                return stored.content
        if blob.size <= _SMALL:
            return self._small(foundation, blake3, blob, count)
        return self._download(foundation, blake3, blob, count)

    def _checked_count(self, count: Callable[[int], None]) -> Callable[[int], None]:
        """Return `count`, which also ends the work when the user asked to stop."""

        def counted(amount: int) -> None:
            self._stop.check()
            count(amount)

        return counted

    def _small(
        self,
        foundation: Foundation,
        blake3: Digest,
        blob: Descriptor,
        count: Callable[[int], None],
    ) -> Content:
        """Take a content that comes in one request, and keep it where its bytes are worth the directory."""
        if blob.size <= _NOT_KEPT:
            data = self._client.read_blob(self._reference, blob.digest, blob.size, self._stop.check)
            content = self._checked(blake3, blob, _content_of(data))
            self._write(blake3, data)
        else:
            key = self._key(blob)
            self._downloads.append(key)
            with downloading(foundation, key, self._stop.check) as download:
                content = self._kept(download, blob)
                self._checked(blake3, blob, content)
                os.link(download.part, self._space.path / blake3)
        count(blob.size)
        return content

    def _kept(self, download: Download, blob: Descriptor) -> Content:
        """Return what is in a download of a small blob, which another process may have left there."""
        descriptor, _ = download.open()
        try:
            if os.fstat(descriptor).st_size == blob.size:
                content = hash_content(descriptor)
                if content.sha256 == blob.digest:
                    return content
            data = self._client.read_blob(self._reference, blob.digest, blob.size, self._stop.check)
            anew = download.start_over()
            os.close(descriptor)
            descriptor = anew
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        return _content_of(data)

    def _download(
        self,
        foundation: Foundation,
        blake3: Digest,
        blob: Descriptor,
        count: Callable[[int], None],
    ) -> Content:
        with self._fetched(foundation, blob, count) as (download, content):
            try:
                self._checked(blake3, blob, content)
            except RegistryMismatchError:
                download.remove()
                raise
            os.link(download.part, self._space.path / blake3)
        return content

    def _fetched(
        self, foundation: Foundation, blob: Descriptor, count: Callable[[int], None]
    ) -> "_Fetched":
        key = self._key(blob)
        self._downloads.append(key)
        fetch = partial(
            self._client.fetch_blob,
            self._reference,
            blob.digest,
            blob.size,
            listener=Listener(count, self._stop.check),
        )
        return _Fetched(foundation, key, fetch, self._stop)

    def _key(self, blob: Descriptor) -> Digest:
        return Digest.of(f"{self._reference.base} {blob.digest}".encode())

    def _joined(
        self,
        foundation: Foundation,
        blake3: Digest,
        parts: Sequence[Descriptor],
        count: Callable[[int], None],
    ) -> Content:
        """Fetch the parts of a file, and put them together."""
        for stored in open_stored(foundation, blake3, None, self._checked_count(count)):
            self._take(stored.path, blake3)
            return stored.content
        key = joined_key(str(self._reference.base), blake3, parts)
        self._downloads += [key, *map(self._key, parts)]
        with downloading(foundation, key, self._stop.check) as download:
            joined = JoinedFile(download, parts)
            try:
                self._place_parts(foundation, joined, parts, count)
                content = joined.content(self._stop.check)
            finally:
                joined.close()
            if content.blake3 != blake3:
                download.remove()
                raise RegistryMismatchError(
                    f"a file of {self._reference.base} is not what it must be",
                    cause=f"its parts make up the BLAKE3 {content.blake3}, and {blake3} is wanted",
                )
            os.link(download.part, self._space.path / blake3)
        return content

    def _place_parts(
        self,
        foundation: Foundation,
        joined: JoinedFile,
        parts: Sequence[Descriptor],
        count: Callable[[int], None],
    ) -> None:
        size = sum(part.size for part in parts)
        for path in files_of_size(foundation, size):
            take_equal_parts(joined, parts, path, self._stop.check)
        # Equal parts, of zeros for one, come once.
        places: dict[Sha256, list[int]] = {}
        for number in joined.missing():
            places.setdefault(parts[number].digest, []).append(number)
        fetched = sum(parts[numbers[0]].size for numbers in places.values())
        count(size - fetched)

        def place(numbers: list[int]) -> None:
            self._stop.check()
            blob = parts[numbers[0]]
            if blob.size <= _SMALL:
                data = self._client.read_blob(
                    self._reference, blob.digest, blob.size, self._stop.check
                )
                count(len(data))
                for number in numbers:
                    joined.place(number, [data])
                return
            with self._fetched(foundation, blob, count) as (download, _):
                for number in numbers:
                    joined.place(
                        number,
                        blob_of_file(download.part, blob.digest, blob.size).read(0, blob.size),
                    )
                download.remove()

        work_on(list(places.values()), place, self._stop, jobs=BLOBS_AT_ONCE)

    def _unpacked(
        self, foundation: Foundation, remote: RemoteObject, count: Callable[[int], None]
    ) -> Mapping[Digest, Content]:
        if remote.archive is None:
            return {}

        def check(_amount: int) -> None:
            self._stop.check()

        with (
            self._fetched(foundation, remote.archive, count) as (download, _),
            download.part.open("rb", buffering=0) as stream,
        ):
            found = unpack(stream, remote.tree, self._space, check)
        for blake3 in found:
            (self._space.path / blake3).chmod(FILE_MODE)
        return found

    def _checked(self, blake3: Digest, blob: Descriptor, content: Content) -> Content:
        if (content.blake3, content.sha256, content.size) != (blake3, blob.digest, blob.size):
            raise RegistryMismatchError(
                f"a file of {self._reference.base} is not what it must be",
                cause=f"its manifest says the BLAKE3 {blake3}, and it is {content.blake3}",
            )
        return content

    def _take(self, path: "os.PathLike[str]", blake3: Digest) -> None:
        target = self._space.path / blake3
        try:
            os.link(path, target)
        except OSError:
            shutil.copyfile(path, target)

    def _write(self, blake3: Digest, data: bytes) -> None:
        target = self._space.path / blake3
        with suppress(FileExistsError), target.open("xb", buffering=0) as file:
            file.write(data)
            os.fchmod(file.fileno(), FILE_MODE)


class _Fetched:
    """A blob that has come whole, held by this process for the time of a block."""

    def __init__(
        self, foundation: Foundation, key: Digest, fetch: "partial[Content]", stop: Stop
    ) -> None:
        self._holding = downloading(foundation, key, stop.check)
        self._fetch = fetch

    def __enter__(self) -> tuple[Download, Content]:
        download = self._holding.__enter__()
        try:
            return download, self._fetch(download=download)
        except BaseException as error:
            self._holding.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(self, *error: object) -> None:
        self._holding.__exit__(None, None, None)


def _content_of(data: bytes) -> Content:
    hasher = ContentHasher(threaded=False)
    hasher.update(data)
    return hasher.finish()
