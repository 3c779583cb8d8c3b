"""How patient and how busy transfers are: times in seconds, amounts in bytes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Conduct:
    """The bounds of all that is asked of servers.

    Attributes:
        connect_seconds: For a connection to stand.
        silence_seconds: Without a byte, after which a connection counts as broken.
        answer_seconds: From the request to the end of the headers.
        slow_seconds: Over so long a time, fewer than `slow_bytes` count as a hang.
        slow_bytes: See there.
        attempts: In a row that may fail before a transfer is given up.
        progress_bytes: So many bytes make the next failure the first one again.
        first_delay: Before the second attempt; doubled before each further one.
        longest_delay: Whatever the number of attempts.
        longest_retry_after: A server that wants to be left alone for longer is given up.
        ranges: Of one file, in parallel.
        piece_bytes: What one request asks for.
        sync_bytes: After so many the disk is waited for, so that a power cut costs no more.
    """

    connect_seconds: float = 15.0
    silence_seconds: float = 30.0
    answer_seconds: float = 60.0
    slow_seconds: float = 30.0
    slow_bytes: int = 30 << 10
    attempts: int = 6
    progress_bytes: int = 16 << 10
    first_delay: float = 0.5
    longest_delay: float = 30.0
    longest_retry_after: float = 120.0
    ranges: int = 4
    piece_bytes: int = 32 << 20
    sync_bytes: int = 512 << 20
