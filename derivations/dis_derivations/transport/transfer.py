"""One file from one address: fetched in ranges, hashed in order as it comes, and kept for the next process if it stops.

The calling thread hashes and looks after the others, so that Ctrl-C is answered at once. What is hashed is read back
from the file: the pages are still in memory, and the order in which ranges come does not matter.
"""

import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from dis_derivations.transport import journal, refusals
from dis_derivations.transport.answer import Version
from dis_derivations.transport.extents import Extents
from dis_derivations.transport.pieces import ChangedError, Pieces, StaleError
from dis_derivations.transport.positions import Positions
from dis_derivations.transport.retrying import LATER
from dis_derivations.transport.worker import Errand, UnmarkedError, Worker
from dis_store.environment import reported
from dis_store.hashing import CHUNK_BYTES, Content, ContentHasher
from dis_store.platform_linux import boot_id
from dis_store.writing.downloads import Download

_SECONDS_BETWEEN_LOOKS = 0.05
_SECONDS_TO_END = 2.0
# Hashed before the others are looked after again.
_BURST_BYTES = 8 << 20
_MOST_RESTARTS = 4


@dataclass(frozen=True)
class Listener:
    """Who follows a transfer.

    Attributes:
        on_bytes: Called with the number of bytes that have come, a negative one when some do not count after all.
        check_interrupted: Called now and then; raises when the user asked to stop.
    """

    on_bytes: Callable[[int], None]
    check_interrupted: Callable[[], None]


def transfer(errand: Errand, download: Download, listener: Listener) -> Content:
    """Fetch a file into a download, which holds all of it when this returns; return what it holds.

    Raises:
        UnsafeAddressError, RefusedRequestError, TransferError, WrongSizeError: It cannot be had from there.
        DiskFullError: There is no room.
    """
    told = 0

    def tell(amount: int) -> None:
        nonlocal told
        told += amount
        listener.on_bytes(amount)

    for _ in range(_MOST_RESTARTS):
        attempt = _Attempt(errand, download, replace(listener, on_bytes=tell))
        try:
            return attempt.run()
        except UnmarkedError:
            errand = replace(errand, whole=True)
        except ChangedError:
            pass
        os.close(download.start_over())
        tell(-told)
    raise refusals.failed(
        errand.address,
        f"{errand.address.place} breaks off and gives no parts, or has another version every time",
    )


class _Attempt:
    """The way to one version of a file."""

    def __init__(self, errand: Errand, download: Download, listener: Listener) -> None:
        self._errand = errand
        self._conduct = errand.client.conduct
        self._download = download
        self._listener = listener
        self._boot = boot_id()
        self._ended: queue.SimpleQueue[tuple[Worker, BaseException | None]] = queue.SimpleQueue()
        self._workers: set[Worker] = set()
        self._descriptor = self._positions_descriptor = -1
        self._slots = count()
        self._may_write = True
        self._reserved = False
        self._noting = threading.Lock()
        # Set when no thread may touch what is noted any more.
        self._over = False
        self._told = self._hashed = self._hangs = 0
        self._lasting = Extents()

    def run(self) -> Content:
        """Fetch what is missing; return what the whole file holds."""
        self._descriptor, self._may_write = self._download.open()
        hasher = ContentHasher()
        try:
            self._pieces = self._resumed()
            # Before any thread forgets how far one of another process had come.
            self._note()
            self._check_version()
            while not self._pieces.is_complete:
                self._look_after()
                self._hash(hasher)
            while self._hashed < (self._pieces.size or 0):
                self._listener.check_interrupted()
                self._hash(hasher)
            self._tell()
            return hasher.finish()
        except BaseException:
            hasher.abandon()
            raise
        finally:
            self._halt()

    def _resumed(self) -> Pieces:
        length = os.fstat(self._descriptor).st_size
        found = journal.decode(self._download.journal(), length)
        if found is not None and self._can_go_on(found.version):
            positions = self._open_positions()
            extents = found.usable(self._boot)
            for start, end in positions.read(found.version, length):
                extents.add(start, end)
            if self._may_write or extents.count == found.version.size:
                self._lasting = Extents(found.lasting)
                self._listener.on_bytes(extents.count)
                return self._pieces_of(found.version, extents, positions)
        descriptor = self._download.start_over()
        os.close(self._descriptor)
        self._descriptor = descriptor
        return self._pieces_of(None, Extents(), self._open_positions())

    def _can_go_on(self, version: Version) -> bool:
        """Tell whether a later request for the rest gets what fits, or is found out if it does not."""
        known = version.size is not None and self._errand.size in (None, version.size)
        return known and (version.condition is not None or self._errand.is_checked)

    def _open_positions(self) -> Positions:
        if self._positions_descriptor >= 0:
            os.close(self._positions_descriptor)
            self._positions_descriptor = -1
        self._positions_descriptor = self._download.open_positions()
        return Positions(self._positions_descriptor, self._boot)

    def _pieces_of(self, version: Version | None, extents: Extents, positions: Positions) -> Pieces:
        piece_bytes = self._conduct.piece_bytes
        return Pieces(self._descriptor, piece_bytes, version, extents, positions)

    def _check_version(self) -> None:
        """Ask whether a file that had come whole is still the one that the server has, unless its digest is known."""
        if not self._pieces.is_complete or self._errand.is_checked:
            return
        errand, listener = self._errand, self._listener
        found = errand.client.look(errand.address, errand.credentials, listener.check_interrupted)
        if self._pieces.version is None or not found.is_same(self._pieces.version):
            raise ChangedError

    def _look_after(self) -> None:
        """Start threads, learn of those that ended or hang, and tell how far it is."""
        self._listener.check_interrupted()
        self._reserve()
        wanted = 1 if self._pieces.size is None else self._conduct.ranges
        while len(self._workers) < wanted and self._pieces.is_claimable:
            slot = next(self._slots)
            worker = Worker(self._errand, self._pieces, slot, self._note, self._report)
            self._workers.add(worker)
            worker.start()
        for worker in [each for each in self._workers if each.hangs()]:
            worker.abandon()
            self._workers.discard(worker)
            self._note_hang()
        self._take_endings()
        self._tell()

    def _note_hang(self) -> None:
        # What comes too slowly to count is no progress.
        self._hangs += 1
        if self._hangs >= self._conduct.attempts:
            place = self._errand.address.place
            raise refusals.failed(self._errand.address, f"{place} hangs", hint=LATER)

    def _report(self, worker: Worker, error: BaseException | None) -> None:
        self._ended.put((worker, error))

    def _take_endings(self) -> None:
        wait = self._pieces.reach(self._hashed) == self._hashed
        while True:
            try:
                worker, error = (
                    self._ended.get(timeout=_SECONDS_BETWEEN_LOOKS)
                    if wait
                    else self._ended.get_nowait()
                )
            except queue.Empty:
                return
            wait = False
            known = worker in self._workers
            self._workers.discard(worker)
            if known and error is not None and not isinstance(error, StaleError):
                with reported(self._download.foundation.top):
                    raise error

    def _reserve(self) -> None:
        size = self._pieces.size
        if size is not None and not self._reserved:
            self._download.reserve(self._descriptor, size)
            self._reserved = True
            self._pieces.have_room()

    def _hash(self, hasher: ContentHasher) -> None:
        end = min(self._pieces.reach(self._hashed), self._hashed + _BURST_BYTES)
        with reported(self._download.foundation.top):
            while self._hashed < end:
                chunk = os.pread(
                    self._descriptor, min(CHUNK_BYTES, end - self._hashed), self._hashed
                )
                if not chunk:
                    raise ChangedError  # somebody cut it short
                hasher.update(chunk)
                self._hashed += len(chunk)

    def _tell(self) -> None:
        came = self._pieces.received - self._told
        if came:
            self._told += came
            self._listener.on_bytes(came)

    def _note(self) -> None:
        """Write down what has come, also from the threads."""
        with self._noting:
            if not self._over:
                self._write_note()

    def _write_note(self) -> None:
        version = self._pieces.version
        if version is None or not self._can_go_on(version):
            return
        arrived = self._pieces.arrived()
        if Extents(arrived).count - self._lasting.count >= self._conduct.sync_bytes:
            with reported(self._download.foundation.top):
                os.fdatasync(self._descriptor)
            self._lasting = Extents(arrived)
        note = journal.Journal(version, arrived, tuple(self._lasting), self._boot)
        self._download.note(note.encode())

    def _halt(self) -> None:
        """Let no thread write any more, keep what there is, and give the others a moment to end."""
        if hasattr(self, "_pieces"):
            self._pieces.close()
            with self._noting:
                self._over = True
                self._write_note()
        for worker in self._workers:
            worker.stop()
        latest = time.monotonic() + _SECONDS_TO_END
        for worker in self._workers:
            worker.join(max(0.0, latest - time.monotonic()))
        for descriptor in (self._descriptor, self._positions_descriptor):
            if descriptor >= 0:
                os.close(descriptor)
