"""The process without a network as dis sees it: orders go in, lines and results come out, and attempts are noticed."""

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from dis_derivations.confinement.attempt import Attempt
from dis_derivations.confinement.errors import NoConfinementError
from dis_derivations.confinement.means import MissingMeansError, Started, all_means, start

_SECONDS_BETWEEN_LOOKS = 0.1
# How long a build may take to end once it was seen to try the network.
_SECONDS_TO_STOP = 20.0
_SECONDS_TO_END = 5.0
_HINT = (
    "let this user have user namespaces (sysctl user.max_user_namespaces, "
    "kernel.apparmor_restrict_unprivileged_userns), or install bubblewrap, or start a container without network; "
    "or allow the network: --set runtime.network_policy=online_allowed"
)


@dataclass(frozen=True)
class Listener:
    """Who hears of a build while it goes on.

    Attributes:
        log: Told each line of its log.
        report: Told how far it has come.
        cancelled: Asked whether it is to end.
        record: Given the record of each build that was made on the way, if nothing was tried until then.
    """

    log: Callable[[str], None]
    report: Callable[[str, list[list[Any]]], None]
    cancelled: Callable[[], bool]
    record: Callable[[str], object] = lambda _record: None


@dataclass(frozen=True)
class Ending:
    """How a build ended.

    Attributes:
        message: What the process said last; None where it ended without a word.
        attempts: What it tried to reach.
        code: The exit code of the process, negative for a signal, where it has ended.
    """

    message: Mapping[str, Any] | None
    attempts: tuple[Attempt, ...]
    code: int | None = None


@dataclass
class ConfinedProcess:
    """A process of dis that has no network, for the builds of one command; a context manager.

    Builds are made one at a time, so that an attempt is known to be one of a certain build.
    """

    _started: Started
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def start(cls, environment: Mapping[str, str] = os.environ) -> "ConfinedProcess":
        """Start one, in the first way that is open.

        Raises:
            NoConfinementError: None is; the cause says what was tried.
        """
        tried = []
        for means in all_means(environment):
            try:
                return cls(start(means, environment))
            except MissingMeansError as missing:
                tried.append(f"{means.name}: {missing}")
        raise NoConfinementError(
            "builds cannot be kept off the network on this machine, and the manifest wants that",
            cause="\n".join(["runtime.network_policy is offline_required", *tried]),
            hint=_HINT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def enforced_by(self) -> str:
        """What keeps the process off the network."""
        return self._started.means.name

    @property
    def recorded_by(self) -> str:
        """What shows its attempts."""
        return self._started.witness.kind

    @contextmanager
    def turn(self, check_interrupted: Callable[[], None]) -> Iterator[None]:
        """Wait until no other build goes on, and keep others waiting for the time of a block."""
        while not self._turn.acquire(timeout=_SECONDS_BETWEEN_LOOKS):
            check_interrupted()
        try:
            yield
        finally:
            self._turn.release()

    def build(self, order: Mapping[str, Any], listener: Listener) -> Ending:
        """Have one build made, and return how it ended. An attempt to use the network stops it."""
        channel = self._started.channel
        attempts: dict[Attempt, None] = {}
        stopping_since: float | None = None
        try:
            channel.send({"message": "build", "order": dict(order)})
            while True:
                readable = self._readable()
                attempts.update(dict.fromkeys(self._started.witness.take()))
                if stopping_since is None and (attempts or listener.cancelled()):
                    channel.send({"message": "stop"})
                    stopping_since = time.monotonic()
                if attempts and stopping_since is not None:
                    self._end_if_deaf(stopping_since)
                if not readable:
                    continue
                message = channel.receive()
                attempts.update(dict.fromkeys(self._started.witness.take()))
                if message is None or not _is_news(message, listener, blameless=not attempts):
                    break
        except OSError:
            message = None
        attempts.update(dict.fromkeys(self._started.witness.take()))
        code = self._wait() if message is None else None
        return Ending(message, tuple(attempts), code)

    def close(self) -> None:
        """Let the process end, and wait for it."""
        with contextlib.suppress(OSError):
            self._started.channel.send({"message": "end"})
        self._wait()
        self._started.channel.close()
        self._started.witness.close()

    def _readable(self) -> bool:
        """Wait a little for a message or for an attempt, and tell whether there is a message."""
        channel, witness = self._started.channel.end, self._started.witness.descriptor()
        watched = [channel.fileno(), *([] if witness is None else [witness])]
        return channel.fileno() in select.select(watched, [], [], _SECONDS_BETWEEN_LOOKS)[0]

    def _end_if_deaf(self, since: float) -> None:
        if time.monotonic() - since > _SECONDS_TO_STOP:
            self._kill()

    def _wait(self) -> int:
        process = self._started.process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
        self._kill()  # also what it has started and left behind
        return process.wait()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._started.process.pid, signal.SIGKILL)


def _is_news(message: Mapping[str, Any], listener: Listener, *, blameless: bool) -> bool:
    """Pass on what is told of a build that goes on; return False for the last message of one."""
    match message["message"]:
        case "log":
            listener.log(message["line"])
        case "progress":
            listener.report(message["text"], message["measures"])
        case "record":
            if blameless:
                listener.record(message["realisation"])
        case _:
            return False
    return True
