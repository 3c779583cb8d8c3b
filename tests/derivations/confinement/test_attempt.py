"""Packets as attempts: what they say is told, and no packet can break the reader."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.confinement.attempt import Attempt, attempt_of


def ipv4(protocol: int, rest: bytes, options: bytes = b"") -> bytes:
    length = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH", 0x40 | length, 0, 0, 0, 0, 64, protocol, 0)
    return head + bytes([127, 0, 0, 1]) + bytes([192, 0, 2, 1]) + options + rest


def ipv6(protocol: int, rest: bytes) -> bytes:
    head = struct.pack("!IHBB", 6 << 28, len(rest), protocol, 64)
    return head + bytes(15) + b"\x01" + bytes.fromhex("20010db8000000000000000000000007") + rest


def question(name: str) -> bytes:
    labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split("."))
    return bytes(8 - 4) + bytes(12) + labels + b"\0\0\x01\0\x01"


PORTS = struct.pack("!HH", 4000, 443)


@pytest.mark.parametrize(
    ("packet", "told"),
    [
        (ipv4(6, PORTS), "192.0.2.1 port 443 (tcp)"),
        (ipv4(6, PORTS, options=bytes(8)), "192.0.2.1 port 443 (tcp)"),
        (ipv4(17, PORTS), "192.0.2.1 port 443 (udp)"),
        (ipv4(1, b"\x08\0"), "192.0.2.1 (icmp)"),
        (ipv4(47, b""), "192.0.2.1 (47)"),
        (ipv4(6, b"\0"), "192.0.2.1 (tcp)"),
        (ipv6(6, PORTS), "2001:db8::7 port 443 (tcp)"),
        (ipv6(58, b""), "2001:db8::7 (icmp)"),
    ],
)
def test_a_packet_tells_where_it_goes(packet: bytes, told: str) -> None:
    assert str(attempt_of(packet)) == told


def test_a_question_of_the_name_service_tells_the_name() -> None:
    packet = ipv4(17, struct.pack("!HH", 4000, 53) + question("weights.example.org"))
    assert attempt_of(packet) == Attempt("192.0.2.1", 53, "udp", "weights.example.org")


def test_a_name_cannot_steer_a_terminal() -> None:
    packet = ipv4(17, struct.pack("!HH", 4000, 53) + question("a\x1b[2J.example"))
    assert "\x1b" not in str(attempt_of(packet))


@given(st.binary(max_size=100))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    attempt = attempt_of(data)
    assert attempt is None or str(attempt).isprintable()


@given(st.binary(max_size=60))
def test_no_question_breaks_the_reader(data: bytes) -> None:
    assert str(attempt_of(ipv4(17, struct.pack("!HH", 1, 53) + bytes(16) + data))).isprintable()
