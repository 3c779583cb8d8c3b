"""Serves the files of a directory as fast as the system can copy them, for measurements.

Usage: sendfile_server.py DIRECTORY

Prints its port. `/sent` is answered with the bytes of files that were sent so far.
"""

import os
import socket
import sys
import threading
from pathlib import Path
from urllib.parse import unquote

_LOCK = threading.Lock()
_END = b"\r\n\r\n"


class _Count:
    sent = 0


def _serve(connection: socket.socket, top: Path) -> None:
    with connection:
        data = b""
        while True:
            while _END not in data:
                received = connection.recv(65536)
                if not received:
                    return
                data += received
            head, _, data = data.partition(_END)
            _answer(connection, top, head.decode("latin-1").split("\r\n"))


def _answer(connection: socket.socket, top: Path, lines: list[str]) -> None:
    method, target, _ = lines[0].split(" ")
    headers = {
        name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])
    }
    if target == "/sent":
        _say(connection, "200 OK", "", len(str(_Count.sent)))
        connection.sendall(str(_Count.sent).encode())
        return
    try:
        descriptor = os.open(top / unquote(target).lstrip("/"), os.O_RDONLY)
    except OSError:
        _say(connection, "404 Not Found", "", 0)
        return
    try:
        size = os.fstat(descriptor).st_size
        start, end, status, more = 0, size, "200 OK", ""
        if "range" in headers:
            first, _, last = headers["range"].removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1, size) if last else size
            status, more = (
                "206 Partial Content",
                f"Content-Range: bytes {start}-{end - 1}/{size}\r\n",
            )
        _say(connection, status, more, end - start)
        if method == "GET":
            _send(connection, descriptor, start, end)
    finally:
        os.close(descriptor)


def _say(connection: socket.socket, status: str, more: str, length: int) -> None:
    text = f'HTTP/1.1 {status}\r\nETag: "one"\r\n{more}Content-Length: {length}\r\n\r\n'
    connection.sendall(text.encode())


def _send(connection: socket.socket, descriptor: int, start: int, end: int) -> None:
    position = start
    while position < end:
        position += os.sendfile(connection.fileno(), descriptor, position, end - position)
    with _LOCK:
        _Count.sent += end - start


def _guarded(connection: socket.socket, top: Path) -> None:
    try:
        _serve(connection, top)
    except OSError:
        return  # the client broke off


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    while True:
        accepted, _ = listening.accept()
        threading.Thread(target=_guarded, args=(accepted, Path(sys.argv[1])), daemon=True).start()
