"""Ways to try the network from inside a build: code that a process of dis runs in place of a builder's own."""

from collections.abc import Mapping
from pathlib import Path

BY_CHILD = "subprocess.run(['bash', '-c', 'exec 3<>/dev/tcp/192.0.2.1/80'])"
BY_NATIVE_CODE = (
    "libc = ctypes.CDLL(None); s = libc.socket(2, 1, 0); "
    "libc.connect(s, struct.pack('=HHI8x', 2, socket.htons(443), socket.htonl(0xC6336401)), 16)"
)
BY_IPV6 = "socket.socket(socket.AF_INET6).connect_ex(('2001:db8::7', 8080))"
BY_DATAGRAM = "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'!', ('203.0.113.9', 9))"
BY_NAME = "hints.append(subprocess.run(['getent', 'hosts', 'weights.example.org']).returncode)"

_SCRIPT = """
import ctypes, os, pathlib, signal, socket, struct, subprocess, sys, threading, time
if "dis_derivations.confinement.child" in getattr(sys, "orig_argv", ()):
    from dis_derivations.builders.{module} import {builder}
    hints = []
    own = {builder}.build
    def build(self, context):
        {code}
        return own(self, context)
    {builder}.build = build
"""


def planted(
    place: Path, code: str, *, module: str = "requests", builder: str = "RequestsBuilder"
) -> Mapping[str, str]:
    """Return variables for dis with which a builder in the process without network runs `code` first.

    Args:
        place: A directory of its own.
        code: One line of Python; it knows the build's `context`.
        module: The module of the builder.
        builder: Its class.
    """
    place.mkdir()
    text = _SCRIPT.format(module=module, builder=builder, code=code)
    (place / "sitecustomize.py").write_text(text, "utf-8")
    return {"PYTHONPATH": str(place)}
