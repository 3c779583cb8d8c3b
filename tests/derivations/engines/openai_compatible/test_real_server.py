"""The real vLLM server, on the CPU, with a small random model: it answers as the offline engine does, or is refused."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkpoints import write_checkpoint
from dis_derivations.engines.child.launching import Surroundings
from dis_derivations.engines.openai_compatible.asking import Server
from dis_derivations.engines.openai_compatible.engine import open_server
from dis_derivations.engines.openai_compatible.identity import (
    UNPROVEN_WEIGHTS,
    departures,
    read_server,
)
from dis_derivations.engines.openai_compatible.place import Place, server_place
from dis_derivations.engines.protocol import Batching, GeneratedSequence
from dis_derivations.engines.vllm.opening import NUMERICS_VERSION, open_vllm
from dis_derivations.engines.vllm.settings import process_variables
from dis_derivations.probing.checks import chosen
from dis_derivations.probing.preparing import laboratory_for
from dis_derivations.probing.probe import probe
from dis_derivations.realisation.platform_facts import measure
from dis_derivations.realisation.silence import silent
from dis_derivations.realisation.target import TargetRequest
from dis_store import Store
from dis_store.errors import BuildError
from engine_runs import RecordingSink, greedy_request, sampled_request
from tiny_runs import write_manifest
from vllm_environment import SMALL, vllm_python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

KEY = "sesame-open"
STARTING_SECONDS = 400
DECLARED = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "2", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
SETTINGS = {"dtype": "bfloat16", "max_model_len": 256, "enable_chunked_prefill": True}
REQUESTS = [
    *(
        greedy_request(f"g{number}", [97 + number, *range(1, 5 + 4 * number)])
        for number in range(4)
    ),
    greedy_request("texts", [104, 101, 108], max_tokens=24, strings=["a", "e"]),
    greedy_request("tokens", [98, 99], max_tokens=24, token_ids=list(range(100, 400))),
    sampled_request("s0", [97, 98, 99], seed=7, max_tokens=12),
    sampled_request("s1", [1, 2], temperature=0.6, top_p=0.8, top_k=50, seed=8, max_tokens=12),
]


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@dataclass(frozen=True)
class Running:
    """The server and its model."""

    files: Mapping[str, Path]
    url: str
    process: "subprocess.Popen[bytes]"

    def asking(self, key: str | None = KEY) -> Server:
        """Return what asks it."""
        return Server(Place(server_place(self.url, {}).root, key), 120, lambda: None)


def _wait(running: Running, log: Path) -> None:
    end = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < end:
        assert running.process.poll() is None, log.read_text("utf-8")[-3000:]
        with socket.socket() as asking:
            if asking.connect_ex(("127.0.0.1", int(running.url.rpartition(":")[2]))) == 0:
                return
        time.sleep(0.5)
    pytest.fail("the server does not start")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("server")
    files = write_checkpoint(place / "model", SMALL)
    port, log = _free_port(), place / "log"
    command = [
        vllm_python(), "-m", "vllm.entrypoints.openai.api_server",
        "--model", place / "model", "--served-model-name", "tiny",
        "--host", "127.0.0.1", "--port", port,
        "--dtype", "bfloat16", "--max-model-len", 256, "--max-num-seqs", 1, "--enforce-eager",
        "--no-enable-prefix-caching", "--no-async-scheduling",
        "--logprobs-mode", "raw_logits", "--max-logprobs", -1,
    ]  # fmt: skip
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(place), **DECLARED,
        "VLLM_API_KEY": KEY, "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_HOST_IP": "127.0.0.1", "HF_HUB_OFFLINE": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [str(each) for each in command],
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        ) as process,
    ):
        found = Running(files, f"http://127.0.0.1:{port}", process)
        try:
            _wait(found, log)
            yield found
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _on_server(running: Running) -> tuple[list[GeneratedSequence], RecordingSink]:
    server = running.asking()
    engine = open_server({"settings": SETTINGS}, running.files, read_server(server, "tiny"), server)
    sink = RecordingSink(("decode",))
    return engine.generate(REQUESTS, Batching(1), sink, lambda _: None), sink


def _offline(running: Running) -> tuple[list[GeneratedSequence], RecordingSink]:
    spec = {
        "name": "vllm",
        "numerics": NUMERICS_VERSION,
        "settings": SETTINGS,
        "variables": process_variables({"vllm": {}}, DECLARED),
    }
    surroundings = Surroundings(
        interpreter=vllm_python(),
        environment=None,
        platform={"class": "cpu", "facts": measure("cpu", DECLARED)},
        patience=600,
        check=lambda: None,
        note=lambda _: None,
        keep_output=lambda _: None,
    )
    sink = RecordingSink(("decode",))
    with open_vllm(spec, running.files, Batching(1, 256), surroundings) as engine:
        return engine.generate(REQUESTS, Batching(1, 256), sink, lambda _: None), sink


def test_the_server_gives_the_tokens_and_logits_of_the_offline_engine(running: Running) -> None:
    asked, told = _on_server(running)
    offline, captured = _offline(running)
    assert asked == offline
    for index in range(len(REQUESTS)):
        assert np.array_equal(told.rows(index, "decode"), captured.rows(index, "decode"))
    assert {each.finish_reason for each in asked} == {"stop", "length"}


def test_what_the_server_was_started_with_is_read_from_it(running: Running) -> None:
    told = read_server(running.asking(), "tiny")
    assert told["settings"]["dtype"] == "bfloat16"
    assert told["settings"]["enable_prefix_caching"] is False
    wanted: dict[str, Any] = {
        "vllm": {"engine_args": {"model": "tiny", "dtype": "bfloat16", "enforce_eager": True}},
        "inference": {"batching": {"max_num_seqs": 1}},
    }
    assert departures(wanted, told) == [UNPROVEN_WEIGHTS]
    wanted["vllm"]["engine_args"]["dtype"] = "float32"
    assert any("'float32'" in line for line in departures(wanted, told))


def test_a_probe_says_of_a_server_what_can_be_known(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_manifest(tmp_path / "tiny")
    write_checkpoint(tmp_path / "tiny" / "model", SMALL)
    document = json.loads(config.read_bytes())
    document["runtime"]["execution"] = {
        "backend": "openai_compatible",
        "base_url": f"{running.url}/v1",
    }
    document["vllm"]["engine_args"]["max_model_len"] = 256
    config.write_text(json.dumps(document), "utf-8")
    monkeypatch.setenv("DIS_SERVER_API_KEY", f"{running.url} {KEY}")
    with (
        Store.open(tmp_path / "store") as store,
        laboratory_for(store, TargetRequest(config), silent) as laboratory,
    ):
        verdict = probe(laboratory, chosen(()))
    found = {each.name: each for each in verdict.results}
    assert [found["same-process"].answer, found["order"].answer] == ["holds", "holds"]
    reasons = {each.name: each.reason for each in verdict.results if each.answer == "not run"}
    assert reasons["prefix-cache"] == "the server says that its prefix cache is off"
    assert reasons.keys() == {
        "new-process", "alone", "batch-size", "prefix-cache", "threads", "instruction-set",
    }  # fmt: skip
    comparison = found["reference"].comparison
    assert comparison is not None
    assert comparison.status["logits"] == "differ"
    assert 0 < (comparison.largest_error or 0) < 1


def test_without_its_key_it_does_not_answer(running: Running) -> None:
    with pytest.raises(BuildError) as caught:
        read_server(running.asking(None), "tiny")
    assert "401" in (caught.value.cause or "")
    assert "DIS_SERVER_API_KEY" in (caught.value.hint or "")
