"""Running builds side by side, each after its inputs, until all are done, one fails, or the user interrupts."""

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from dis_store.digest import Digest
from dis_store.errors import (
    BuildError,
    DisError,
    IntegrityError,
    InterruptedBuildError,
    InvalidInputError,
    UnfitEnvironmentError,
)

Result = TypeVar("Result")

# How often the waiting main thread wakes to notice Ctrl-C on platforms where a wait cannot be
# interrupted.
_WAKE_SECONDS = 0.2


class Schedule(Generic[Result]):
    """One pass over builds that wait for each other.

    Args:
        waiting: Every build, inputs first, with those of its inputs that this pass builds too.
        build: Makes one result; called on a thread of its own when the build's inputs are there.
        jobs: Builds at a time.
        keep_going: After a failure, go on with what does not depend on it.
        stop: Set to tell running builds to end.
        on_skip: Told about each build that is not tried, and the failed one that it needs.
        on_interrupt: Told about Ctrl-C before running builds are waited for.
    """

    def __init__(
        self,
        waiting: Mapping[Digest, set[Digest]],
        build: Callable[[Digest], Result],
        *,
        jobs: int,
        keep_going: bool,
        stop: threading.Event,
        on_skip: Callable[[Digest, Digest], None],
        on_interrupt: Callable[[], None],
    ) -> None:
        self._waiting = {digest: set(inputs) for digest, inputs in waiting.items()}
        self._build = build
        self._jobs = max(1, jobs)
        self._keep_going = keep_going
        self._stop = stop
        self._on_skip = on_skip
        self._on_interrupt = on_interrupt
        self._running: dict[Future[Result], Digest] = {}
        self._results: dict[Digest, Result] = {}
        self._failures: dict[Digest, DisError] = {}

    def run(self, name_of: Callable[[Digest], str]) -> dict[Digest, Result]:
        """Build everything and return what came of each build.

        Raises:
            DisError: The first failure; when there are several, one error that lists them.
            InterruptedBuildError: The user interrupted.
        """
        with ThreadPoolExecutor(self._jobs, thread_name_prefix="dis-build") as pool:
            # Leaving the pool waits for running builds, so they must know by then that they are to end.
            try:
                self._run_in(pool)
            except KeyboardInterrupt:
                self._stop.set()
                self._on_interrupt()
                raise InterruptedBuildError(
                    "interrupted",
                    hint="run the same command again: it goes on from what is finished",
                ) from None
            except BaseException:
                self._stop.set()
                raise
        if self._failures:
            raise _combined({name_of(digest): each for digest, each in self._failures.items()})
        return self._results

    def _run_in(self, pool: ThreadPoolExecutor) -> None:
        while True:
            for digest in self._startable():
                del self._waiting[digest]
                self._running[pool.submit(self._build, digest)] = digest
            if not self._running:
                return
            done, _ = wait(self._running, timeout=_WAKE_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                self._take(future)

    def _startable(self) -> list[Digest]:
        if self._failures and not self._keep_going:
            return []
        ready = [digest for digest, inputs in self._waiting.items() if not inputs]
        return ready[: self._jobs - len(self._running)]

    def _take(self, future: Future[Result]) -> None:
        digest = self._running.pop(future)
        try:
            self._results[digest] = future.result()
        except DisError as failure:
            self._take_failure(digest, failure)
            return
        for inputs in self._waiting.values():
            inputs.discard(digest)

    def _take_failure(self, digest: Digest, failure: DisError) -> None:
        # A build that was told to end because another one failed is no failure of its own.
        if not (isinstance(failure, InterruptedBuildError) and self._stop.is_set()):
            self._failures[digest] = failure
        self._skip_dependents(digest)
        if not self._keep_going:
            self._stop.set()

    def _skip_dependents(self, failed: Digest) -> None:
        lost = {failed}
        # Inputs come first, so one pass reaches everything downstream.
        for digest in list(self._waiting):
            if self._waiting[digest] & lost:
                lost.add(digest)
                del self._waiting[digest]
                self._on_skip(digest, failed)


def _combined(failures: Mapping[str, DisError]) -> DisError:
    """Return the one failure itself, or one error that lists several by the names of their builds."""
    if len(failures) == 1:
        return next(iter(failures.values()))
    hints = dict.fromkeys(each.hint for each in failures.values() if each.hint)
    return _kind_of(failures.values())(
        f"{len(failures)} builds failed",
        cause="\n".join(_line(name, failure) for name, failure in failures.items()),
        hint="\n".join(hints) or None,
    )


def _line(name: str, failure: DisError) -> str:
    return f"{name}: {failure}" + (f" (log: {failure.log})" if failure.log else "")


def _kind_of(failures: Collection[DisError]) -> type[DisError]:
    """Return the class that says most about several failures: damage first, then what all have in common."""
    if any(isinstance(each, IntegrityError) for each in failures):
        return IntegrityError
    for kind in (UnfitEnvironmentError, InvalidInputError):
        if all(isinstance(each, kind) for each in failures):
            return kind
    return BuildError
