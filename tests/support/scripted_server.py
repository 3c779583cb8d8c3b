"""A server that answers as vLLM's does, tokens made of the prompt, and misbehaves where a test says so."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Document = dict[str, Any]
Act = Callable[["Handler"], None]
Change = Callable[[Document], "Document | Act"]
"""What becomes of one answer: another document, or something that is done in its place."""

VOCABULARY = 300
FINGERPRINT = "vllm-0.32.0-0123abcd"


def told() -> Document:
    """Return what `/server_info` has of a server that was started as a manifest wants it."""
    return {
        "vllm_config": {
            "model_config": {
                "dtype": "torch.bfloat16", "seed": 0, "enforce_eager": True, "max_model_len": 256,
                "logprobs_mode": "raw_logits", "max_logprobs": -1, "model": "/srv/a-place",
            },
            "cache_config": {"enable_prefix_caching": False, "block_size": 16, "cache_dtype": "auto"},
            "scheduler_config": {"max_num_seqs": 2, "async_scheduling": False, "policy": "fcfs"},
            "parallel_config": {"tensor_parallel_size": 1, "pipeline_parallel_size": 1},
        },
        "vllm_env": {"VLLM_BATCH_INVARIANT": False, "VLLM_CACHE_ROOT": "/home/somebody"},
        "system_env": {"torch_version": "2.13.0", "cpu_info": "Flags: x\nModel name:   A CPU\n"},
    }  # fmt: skip


@dataclass
class ScriptedServer:
    """The server.

    Attributes:
        changes: What becomes of the answers to completions, the next one first.
        readings: The same for what is only read, by path.
        bodies: What completions were asked for.
        keys: The `Authorization` of every request.
        info: What `/server_info` has; None where it is not offered.
        models: The names of its models.
        connections: How many there were; it keeps each open, whatever it is asked.
    """

    changes: deque[Change] = field(default_factory=deque)
    readings: dict[str, deque[Change]] = field(default_factory=dict)
    bodies: list[Document] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    info: Document | None = field(default_factory=told)
    models: list[str] = field(default_factory=lambda: ["tiny"])
    connections: int = 0
    version: str = "0.32.0"
    place: str = ""

    @property
    def url(self) -> str:
        """Its address, as a manifest has it."""
        return f"http://{self.place}/v1"

    def read(self, path: str) -> Document | None:
        """Return what it tells of itself."""
        found: dict[str, Document | None] = {
            "/version": {"version": self.version},
            "/v1/models": {"data": [{"id": each, "max_model_len": 256} for each in self.models]},
            "/server_info": self.info,
        }
        return found.get(path.partition("?")[0])


def tokens_for(body: Document) -> list[int]:
    """Return the tokens of an honest answer."""
    start = sum((place + 1) * token for place, token in enumerate(body["prompt"]))
    found: list[int] = []
    for number in range(body["max_tokens"]):
        found.append((start + 37 * number) % 256)
        if found[-1] in body["stop_token_ids"]:
            break
    return found


def honest(body: Document) -> Document:
    """Return an answer as vLLM gives it."""
    tokens = tokens_for(body)
    count = body["logprobs"]
    values = [-0.5 - place / 8 for place in range(len(tokens))]
    tables = [
        {f"token_id:{token}": 9.0 if token == chosen else token / 64 for token in range(count)}
        for chosen in tokens
    ]
    stopped = tokens[-1] in body["stop_token_ids"]
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "model": body["model"],
        "system_fingerprint": FINGERPRINT,
        "choices": [
            {
                "index": 0,
                "text": "text",
                "token_ids": tokens,
                "prompt_token_ids": body["prompt"],
                "finish_reason": "stop" if stopped else "length",
                "stop_reason": tokens[-1] if stopped else None,
                "logprobs": {
                    "tokens": [f"token_id:{token}" for token in tokens],
                    "token_logprobs": values,
                    "top_logprobs": tables,
                },
            }
        ],
        "usage": {
            "prompt_tokens": len(body["prompt"]),
            "completion_tokens": len(tokens),
            "total_tokens": len(body["prompt"]) + len(tokens),
            "prompt_tokens_details": None,
        },
    }


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    scripted: ScriptedServer

    def setup(self) -> None:
        """Count the connection."""
        super().setup()
        self.scripted.connections += 1

    def parse_request(self) -> bool:
        """Read the head of a request, and keep the connection whatever it says of that."""
        good = super().parse_request()
        self.close_connection = not good
        return good

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as its base calls it
        """Say nothing."""

    def do_GET(self) -> None:
        """Tell something about the server."""
        self.scripted.keys.append(self.headers.get("Authorization"))
        path = self.path.partition("?")[0]
        found = self.scripted.read(path)
        changes = self.scripted.readings.get(path)
        if changes:
            self._give(changes.popleft()(found or {}))
        elif found is None:
            self.answer(404, {"error": {"message": "Not Found"}})
        else:
            self.answer(200, found)

    def do_POST(self) -> None:
        """Answer a completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.scripted.keys.append(self.headers.get("Authorization"))
        self.scripted.bodies.append(body)
        changes = self.scripted.changes
        self._give(changes.popleft()(honest(body)) if changes else honest(body))

    def answer(self, status: int, document: Document, **headers: str) -> None:
        """Send a document."""
        self.send(status, json.dumps(document).encode(), **headers)

    def send(self, status: int, data: bytes, **headers: str) -> None:
        """Send an answer."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def _give(self, what: "Document | Act") -> None:
        if callable(what):
            what(self)
        else:
            self.answer(200, what)


def doing(act: Act) -> Change:
    """Return a change that answers by `act`, whatever the honest answer is."""
    return lambda _: act


def status(code: int, message: str = "", **headers: str) -> Change:
    """Return a change that answers with a status."""
    return doing(lambda handler: handler.answer(code, {"error": {"message": message}}, **headers))


def choice(**members: Any) -> Change:
    """Return a change of members of the choice; None leaves one out."""

    def change(answer: Document) -> Document:
        chosen = {**answer["choices"][0], **members}
        kept = {name: value for name, value in chosen.items() if value is not None}
        return {**answer, "choices": [kept]}

    return change


def hang(seconds: float) -> Change:
    """Return a change that says nothing for a while, and then nothing."""
    return doing(lambda _: time.sleep(seconds))


def die(handler: Handler) -> None:
    """Close the connection in the middle of an answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def speak_otherwise(handler: Handler) -> None:
    """Answer in no HTTP."""
    handler.wfile.write(b"hello\r\n\r\n")
    handler.close_connection = True


def never_end(handler: Handler) -> None:
    """Send a body without an end."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" " * (1 << 20))
    except OSError:
        handler.close_connection = True


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Run a server on this machine."""
    scripted = ScriptedServer()
    handler = type("Scripted", (Handler,), {"scripted": scripted})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    scripted.place = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield scripted
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
