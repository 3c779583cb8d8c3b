"""A model at an address, through the command: locked, realised, interrupted, gone on with, and nothing secret told."""

import base64
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from file_server import Handler, Script, Served, Serving, serving
from tiny_runs import lock_of, write_manifest

CANARY = "canary-5up3r"
MEBI = 1 << 20
# What a download holds of a range that was not finished.
PIECE = 32 * MEBI


@pytest.fixture
def server() -> Iterator[Serving]:
    with serving() as running:
        yield running


def publish(tmp_path: Path, server: Serving, **source: Any) -> Path:
    """Write the tiny manifest with a model that lies at the server alone, and return it."""
    config = write_manifest(tmp_path)
    model = tmp_path / "model"
    document = json.loads(config.read_text("utf-8"))
    for path in model.iterdir():
        server.script.files[f"/tiny/{path.name}"] = Served(path.read_bytes())
    listed = {
        "weights": ["model.safetensors"],
        "tokenizer": sorted(path.name for path in model.glob("tokenizer*.json")),
        "config": ["config.json"],
    }
    for block, names in listed.items():
        document["model"][block]["files"] = [{"path": name} for name in names]
    address = {"type": "url", "url": server.url("/tiny/"), **source}
    document["model"]["weights"]["source"] = address
    config.write_text(json.dumps(document), "utf-8")
    model.rename(tmp_path / "moved")
    return config


def pin(config: Path, locked: Any) -> None:
    """Declare the digests of a lock in a manifest."""
    document = json.loads(config.read_text("utf-8"))
    digests = {file["path"]: file["digest"] for file in locked["artifacts"]}
    for block in ("weights", "tokenizer", "config"):
        for file in document["model"][block]["files"]:
            file["digest"] = digests[file["path"]]
    config.write_text(json.dumps(document), "utf-8")


def bundle_of(finished: Any) -> str:
    return str(finished.json["outputs"]["bundle"]["digest"])


def test_a_model_at_an_address_makes_the_same_bundle_as_one_on_the_disk(
    dis: Any, tmp_path: Path, server: Serving
) -> None:
    config = publish(tmp_path, server)
    first = bundle_of(dis("realize", config, "--json"))
    assert "HEAD" in {seen.method for seen in server.script.requests}
    server.script.requests.clear()
    # The lock is enough for another store, and what it pins is asked for and nothing else.
    other = dis.having(store=tmp_path / "other")
    assert bundle_of(other("realize", config, "--locked", "--json")) == first
    assert {seen.method for seen in server.script.requests} == {"GET"}
    local = dis.having(store=tmp_path / "local")
    assert (
        bundle_of(
            local(
                "realize",
                config,
                "--set",
                f"model.weights.source.local_path={tmp_path / 'moved'}",
                "--json",
            )
        )
        == first
    )
    dis("store", "verify", "--all")
    dis("gc")
    assert not list((dis.store / "downloads").iterdir())


def test_what_the_store_has_is_not_downloaded_from_another_place(
    dis: Any, tmp_path: Path, server: Serving
) -> None:
    config = publish(tmp_path / "one", server)
    dis("realize", config)
    locked = json.loads(lock_of(config).read_text("utf-8"))
    elsewhere = publish(tmp_path / "two", server, url=server.url("/elsewhere/"))
    for path in list(server.script.files):
        server.script.files[path.replace("/tiny/", "/elsewhere/")] = server.script.files[path]
    pin(elsewhere, locked)
    sent = server.script.sent
    dis("lock", elsewhere)
    dis("realize", elsewhere)
    assert server.script.sent == sent
    # Building it again is evidence only where it comes from its place.
    dis("realize", f"{elsewhere}#weights", "--rebuild")
    assert server.script.sent > sent


def test_what_was_added_by_hand_is_not_downloaded(
    dis: Any, tmp_path: Path, server: Serving
) -> None:
    config = publish(tmp_path, server)
    there = dis.having(store=tmp_path / "there")
    there("lock", config)
    pin(config, json.loads(lock_of(config).read_text("utf-8")))
    lock_of(config).unlink()
    dis("store", "add", tmp_path / "moved")
    server.script.requests.clear()
    dis("realize", config)
    # The server tells how long each file is, by which the store is asked for it; nothing of it is sent.
    assert {seen.method for seen in server.script.requests} == {"HEAD"}


def test_a_dry_run_says_what_would_be_downloaded_and_from_where(
    dis: Any, tmp_path: Path, server: Serving
) -> None:
    config = publish(tmp_path, server)
    weights = len(server.script.files["/tiny/model.safetensors"].data)
    planned = dis("realize", config, "--dry-run", "--json").json
    (row,) = (each for each in planned["downloads"] if each["name"] == "model.weight")
    assert row == {
        "name": "model.weight",
        "path": "model.safetensors",
        "size": weights,
        "from": server.url("/tiny/"),
    }
    text = dis("realize", config, "--dry-run").stdout
    assert "would be downloaded" in text
    assert f"from {server.url('/tiny/')}" in text
    assert server.script.sent == 0
    dis("lock", config)
    sent = server.script.sent
    other = dis.having(store=tmp_path / "other")
    planned = other("realize", config, "--dry-run", "--json").json
    origins = {build["name"]: build["from"] for build in planned["builds"]}
    assert origins["tiny-weights"] == server.url("/tiny/")
    assert sum(build["fetched_bytes"] for build in planned["builds"]) >= weights
    # What the store has is not fetched.
    planned = dis("realize", config, "--dry-run", "--json").json
    assert sum(build["fetched_bytes"] for build in planned["builds"]) == 0
    assert server.script.sent == sent


def big(config: Path, server: Serving, size: int) -> bytes:
    """Make the weights at the server large."""
    header = json.dumps({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(size)
    server.script.files["/tiny/model.safetensors"] = Served(data)
    return data


class Slow:
    """Sends large files slowly."""

    def __init__(self, script: Script) -> None:
        self.script, self.is_slow = script, True

    def __call__(self, handler: Handler) -> bool:
        asked = handler.asked
        if handler.command != "GET" or not handler.path.endswith(".safetensors") or asked is None:
            return False
        data = self.script.files[handler.path].data
        start, end = asked[0], min(asked[1] or len(data), len(data))
        handler.say(
            206,
            ("ETag", '"one"'),
            ("Content-Range", f"bytes {start}-{end - 1}/{len(data)}"),
            length=end - start,
        )
        for position in range(start, end, MEBI):
            handler.body(data[position : min(end, position + MEBI)])
            if self.is_slow:
                time.sleep(0.01)
        return True


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_download_that_is_stopped_is_gone_on_with(
    dis: Any, tmp_path: Path, server: Serving, end: signal.Signals
) -> None:
    config = publish(tmp_path, server)
    data = big(config, server, 192 * MEBI)
    slow = server.script.act = Slow(server.script)
    process = dis.start("lock", config)
    while server.script.sent < 150 * MEBI and process.poll() is None:
        time.sleep(0.005)
    assert process.poll() is None
    begun = time.monotonic()
    process.send_signal(end)
    _, stderr = process.communicate(timeout=60)
    assert time.monotonic() - begun < 10
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(end, -end), stderr
    assert "Traceback" not in stderr
    (part,) = (dis.store / "downloads").glob("*/part")
    assert part.stat().st_size == len(data)
    slow.is_slow = False
    time.sleep(0.2)
    sent = server.script.sent
    dis("lock", config)
    assert server.script.sent - sent < len(data)
    # One unfinished piece for each of four ranges at most.
    assert server.script.sent - sent <= len(data) - 150 * MEBI + 4 * (PIECE + MEBI)
    assert not list((dis.store / "downloads").glob("*/part"))
    dis("store", "verify", "--all")


def test_progress_has_a_line_for_each_artifact(dis: Any, tmp_path: Path, server: Serving) -> None:
    config = publish(tmp_path, server)
    finished = dis("lock", config, "--progress", "json")
    events = [json.loads(line) for line in finished.stderr.splitlines()]
    told = {
        event["subject"]
        for event in events
        if event["event"] == "progress" and event.get("measures")
    }
    assert {"model.weight", "model.tokenizer", "model.config"} <= told


def where(top: Path, secret: str) -> list[Path]:
    """Return the files below a directory that hold a secret, in any of the forms that it is sent in."""
    forms = {secret.encode(), base64.b64encode(f"user:{secret}".encode())}
    return [
        path
        for path in top.rglob("*")
        if path.is_file() and any(form in path.read_bytes() for form in forms)
    ]


def test_no_secret_is_written_anywhere(dis: Any, tmp_path: Path, server: Serving) -> None:
    config = publish(tmp_path / "place", server)
    home = tmp_path / "home"
    home.mkdir()
    netrc = home / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login user password {CANARY}\n", "utf-8")
    netrc.chmod(0o600)
    broken = False

    def act(handler: Handler) -> bool:
        """Redirect to an address with a token, as hubs do; let everything fail when it is told to."""
        parts = urlsplit(handler.path)
        if parts.query:
            assert parts.query == f"token={CANARY}"
            if broken:
                handler.say(500, ("X-Secret", CANARY))
                return True
            return False
        handler.say(302, ("Location", f"{parts.path}?token={CANARY}"), ("Set-Cookie", CANARY))
        return True

    server.script.act = act
    told = []
    for arguments in (
        ("lock", config),
        ("realize", config, "--json"),
        ("--debug", "realize", config, "--dry-run"),
        ("show-derivation", config),
        ("list", "--json"),
    ):
        finished = dis(*arguments, expect=None)
        told.append(finished.stdout + finished.stderr)
    assert any("Authorization" in seen.headers for seen in server.script.requests)
    assert not any("Cookie" in seen.headers for seen in server.script.requests)
    broken = True
    # With its traceback, in which exceptions of libraries would quote what they were asked for.
    process = dis.start("--debug", "lock", config, "--update", "model.weight")
    told += process.communicate(timeout=120)
    assert process.returncode == 5
    assert "Traceback" in told[-1]
    assert CANARY not in "".join(told)
    assert where(dis.store, CANARY) == []
    assert where(config.parent, CANARY) == []
    assert where(home, CANARY) == [netrc]


@pytest.mark.parametrize(
    "secret", [f"https://user:{CANARY}@127.0.0.1/m/", f"https://127.0.0.1/m/?token={CANARY}"]
)
def test_a_secret_in_a_manifest_is_refused_and_not_told(
    dis: Any, tmp_path: Path, server: Serving, secret: str
) -> None:
    config = publish(tmp_path / "place", server, url=secret)
    for command in ("lock", "realize", "show-derivation"):
        finished = dis(command, config, expect=2)
        assert CANARY not in finished.stdout + finished.stderr
        assert "netrc" in finished.stderr
    assert not dis.store.exists() or where(dis.store, CANARY) == []
    assert not lock_of(config).exists()
    assert server.script.requests == []
