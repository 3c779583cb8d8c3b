"""Servers from start to end, through the command. In the place of vLLM a program that loads no model is started."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from command_line import Dis, Outcome, call
from dis_derivations.serving.processes import identify
from fake_vllm import fake_python, servable_manifest
from run_shelf import make_writable

SECRET = "hf_canaryOfTheServer"  # noqa: S105 - nobody's


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_python(tmp_path_factory.mktemp("fake") / "environment")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a locked manifest and what it names; tests copy it."""
    place = tmp_path_factory.mktemp("locked")
    config = servable_manifest(place)
    assert call(["lock", str(config), "--store", str(place / "store"), "-q"]).code == 0
    make_writable(place / "store")
    shutil.rmtree(place / "store")
    return place


@dataclass(frozen=True)
class Site:
    """A locked manifest, and the command with an interpreter for it."""

    dis: Dis
    config: Path
    state: Path

    def start(self, *options: str, code: int = 0) -> Outcome:
        outcome = self.dis("serve", "start", self.config, "--progress", "none", *options)
        assert outcome.code == code, outcome.err
        return outcome

    def listed(self) -> list[dict[str, Any]]:
        outcome = self.dis("serve", "list", "--json")
        assert outcome.code == 0, outcome.err
        found: list[dict[str, Any]] = outcome.document
        return found

    def roots(self) -> list[str]:
        return [each["name"] for each in self.dis("root", "list", "--json").document]

    def has_begun(self) -> bool:
        """Tell whether the program runs that is in the place of vLLM."""
        log = self.state / "servers/tiny/server.log"
        return log.exists() and "fake vLLM reads" in log.read_text("utf-8")

    def check_nothing_left(self, pid: int | None = None) -> None:
        assert self.listed() == []
        assert self.roots() == []
        assert list(self.state.glob("servers/*/home")) == []
        assert list(Path(tempfile.gettempdir()).glob("dis-serve-*")) == []
        assert working_below(self.state) == []
        assert pid is None or identify(pid) is None


def working_below(place: Path) -> list[int]:
    """Return the processes whose working directory is below a place."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                lies = (entry / "cwd").readlink().is_relative_to(place)
            except OSError:
                continue
            if lies and identify(int(entry.name)):
                found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


@pytest.fixture
def site(
    dis: Dis, python: Path, locked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    monkeypatch.setenv("DIS_VLLM_PYTHON", str(python))
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shutil.copytree(locked, tmp_path / "work")
    found = Site(dis, tmp_path / "work/tiny.json", tmp_path / "xdg/state/dis")
    yield found
    dis("serve", "kill", "--all")
    assert working_below(found.state) == []


def asked(url: str, path: str) -> Any:
    address = f"{url.removesuffix('/v1')}/{path}"
    with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - of this machine
        return json.loads(answer.read())


def test_a_server_is_started_listed_kept_and_stopped(site: Site) -> None:
    outcome = site.start()
    url = outcome.out.strip()
    assert outcome.out == f"{url}\n"
    assert f"--set runtime.execution.base_url={url}" in outcome.err
    assert "stop it: dis serve kill tiny" in outcome.err
    assert asked(url, "v1/models")["data"][0]["id"] == "tiny"
    (listed,) = site.listed()
    assert (listed["name"], listed["url"], listed["state"]) == ("tiny", url, "ready")
    assert identify(listed["process"]) is not None
    assert listed["roots"] == site.roots()
    assert site.dis("gc").code == 0
    assert site.dis("path-info", listed["closure"]).code == 0
    kept = site.dis("why-alive", listed["closure"]).out
    assert listed["roots"][0] in kept
    text = site.dis("serve", "list").out
    assert [word in text for word in ("tiny", "ready", url, listed["closure"][:12])] == [True] * 4
    stopped = site.dis("serve", "kill", "tiny")
    assert (stopped.code, stopped.out) == (0, "")
    assert "stopped tiny" in stopped.err
    site.check_nothing_left(listed["process"])
    assert "fake vLLM reads" in Path(listed["log"]).read_text("utf-8")
    assert site.dis("why-alive", listed["closure"]).code == 1


def test_nothing_of_the_callers_variables_reaches_a_server_its_log_or_its_record(
    site: Site,
) -> None:
    seen = asked(site.start().out.strip(), "seen")
    assert SECRET not in json.dumps(seen)
    assert "VLLM_SERVER_DEV_MODE" not in seen["variables"]
    assert seen["variables"]["HF_HUB_OFFLINE"] == "1"
    assert seen["variables"]["PYTHONHASHSEED"] == "0"
    assert "--host=127.0.0.1" in seen["arguments"]
    written = [path.read_bytes() for path in site.state.rglob("*") if path.is_file()]
    assert len(written) >= 2
    assert not any(SECRET.encode() in each for each in written)


def test_a_second_server_of_a_name_is_refused_and_one_of_another_name_is_not(site: Site) -> None:
    site.start()
    refused = site.start(code=2)
    assert "there is a server tiny already" in refused.err
    assert "dis serve kill tiny" in refused.err
    refused.check_one_block()
    other = site.start("--name", "other", "--json")
    assert other.document["name"] == "other"
    asking = site.dis("serve", "kill")
    assert (asking.code, "which one: other, tiny?" in asking.err) == (2, True)
    stopped = site.dis("serve", "kill", "--all", "--json")
    assert stopped.document == {"schema_version": 1, "stopped": ["other", "tiny"]}
    site.check_nothing_left()


def test_a_server_that_dies_while_it_starts_leaves_its_log_alone(site: Site) -> None:
    outcome = site.start("--set", "vllm.env.FAKE_VLLM=die", code=3)
    assert "the server tiny ended before it answered" in outcome.err
    assert "there is no room for keys and values" in outcome.err
    log = site.state / "servers/tiny/server.log"
    assert f"  log: {log}" in outcome.err
    outcome.check_one_block()
    assert log.exists()
    site.check_nothing_left()


def test_a_server_that_is_late_is_ended_with_all_that_it_started(site: Site) -> None:
    late = ("--set", "vllm.env.FAKE_VLLM=late", "--wait-timeout-seconds", "1.5")
    outcome = site.start(*late, code=3)
    assert "did not answer within 1.5 seconds" in outcome.err
    assert "--wait-timeout-seconds N" in outcome.err
    assert "fake vLLM reads" in outcome.err
    outcome.check_one_block()
    site.check_nothing_left()


def test_an_interruption_while_waiting_leaves_nothing(site: Site) -> None:
    command = (sys.executable, "-m", "dis_command", "serve", "start", str(site.config))
    process = subprocess.Popen(
        [*command, "--set", "vllm.env.FAKE_VLLM=late"], stderr=subprocess.PIPE, text=True
    )
    wait_for(site.has_begun)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "the server tiny was stopped" in said
    assert "Traceback" not in said
    site.check_nothing_left()


def test_a_command_that_is_killed_leaves_a_server_that_can_be_stopped(site: Site) -> None:
    command = (sys.executable, "-m", "dis_command", "serve", "start", str(site.config))
    process = subprocess.Popen([*command, "--set", "vllm.env.FAKE_VLLM=late"])
    wait_for(site.has_begun)
    process.kill()
    process.wait(60)
    assert site.listed()[0]["state"] == "starting"
    assert site.dis("serve", "kill").code == 0
    assert site.listed() == []
    assert site.roots() == []


def test_without_waiting_it_is_starting_and_then_ready(site: Site) -> None:
    late = site.start("--set", "vllm.env.FAKE_VLLM=late", "--no-wait", "--json")
    assert late.document["state"] == "starting"
    assert site.listed()[0]["state"] == "starting"
    # The alias, and no name where there is one alone.
    assert site.dis("serve", "stop").code == 0
    site.start("--no-wait")
    wait_for(lambda: site.listed()[0]["state"] == "ready")


def test_a_server_that_died_is_gone_and_kill_ends_what_it_left(site: Site) -> None:
    document = site.start("--json").document
    os.kill(document["process"], signal.SIGKILL)
    while identify(document["process"]) is not None:
        time.sleep(0.02)
    (listed,) = site.listed()
    assert listed["state"] == "gone"
    assert working_below(site.state)  # what it had started goes on without it
    assert "there is a server tiny already" in site.start(code=2).err
    assert site.dis("serve", "kill", "tiny").code == 0
    site.check_nothing_left()


def test_a_process_that_has_the_number_of_a_dead_server_is_not_killed(site: Site) -> None:
    document = site.start("--json").document
    path = site.state / "servers/tiny/record.json"
    record = json.loads(path.read_bytes())
    assert site.dis("serve", "kill").code == 0
    # As if this very process had got the number of the server.
    record["process"]["pid"] = os.getpid()
    (site.state / "servers/tiny/home").mkdir()
    path.write_text(json.dumps(record, separators=(",", ":"), sort_keys=True), "utf-8")
    assert document["process"] != os.getpid()
    (listed,) = site.listed()
    assert (listed["state"], listed["process"]) == ("gone", os.getpid())
    assert site.dis("serve", "kill", "tiny").code == 0
    site.check_nothing_left()


def test_a_server_that_does_not_end_when_it_is_asked_is_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dis_derivations.serving import stopping

    monkeypatch.setattr(stopping, "GRACE_SECONDS", 0.5)
    document = site.start("--set", "vllm.env.FAKE_VLLM=stubborn", "--json").document
    assert site.dis("serve", "kill", "tiny").code == 0
    site.check_nothing_left(document["process"])


def test_a_dry_run_says_what_would_be_started_and_changes_nothing(site: Site) -> None:
    outcome = site.start("--dry-run", "--port", "18999")
    assert "tiny-closure" in outcome.out
    assert "would be started at http://127.0.0.1:18999/v1" in outcome.out
    document = site.start("--dry-run", "--json").document
    assert (document["dry_run"], document["server"]["name"]) == (True, "tiny")
    site.check_nothing_left()


def test_the_call_of_the_older_tool_starts_a_server(site: Site) -> None:
    outcome = site.dis("serve", "--config", site.config, "--progress", "none", "--no-wait")
    assert outcome.code == 0, outcome.err
    assert site.listed()[0]["name"] == "tiny"
    refused = site.dis("serve", site.config)
    assert (refused.code, f"dis serve start {site.config}" in refused.err) == (2, True)


def test_a_port_that_somebody_listens_on_is_refused(site: Site) -> None:
    url = site.start().out.strip()
    port = url.removesuffix("/v1").rpartition(":")[2]
    refused = site.start("--name", "other", "--port", port, code=2)
    assert f"port {port} cannot be listened on" in refused.err
    refused.check_one_block()


def test_a_manifest_for_a_server_is_served_where_its_runs_look_for_it(site: Site) -> None:
    from dis_derivations.transport.local_server import free_port

    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    server = ("runtime.execution.backend=openai_compatible", f"runtime.execution.base_url={url}")
    outcome = site.start(*(f"--set={each}" for each in server), "--set", "vllm.mode=server")
    assert outcome.out.strip() == url


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--set", "runtime.execution.backend=reference"), 5, "there is no server of the engine"),
        (("--set", "vllm.engine_args.tensor_parallel_size=2"), 5, "tensor_parallel_size"),
        (("--set", "vllm.engine_args.enable_prefix_caching=true"), 5, "enable_prefix_caching"),
        (("--set", "vllm.engine_args.trust_remote_code=true"), 2, "trust_remote_code"),
        (("--set", "vllm.env.HF_TOKEN=x"), 5, "secrets and proxies are kept out"),
        (("--name", "a/b"), 2, "the name 'a/b' is refused"),
        (("--name", ""), 2, "the name '' is refused"),
        (("--port", "0"), 2, "--port"),
        (("--wait-timeout-seconds", "0"), 2, "--wait-timeout-seconds"),
        (("--image", f"localhost/x@sha256:{'a' * 64}"), 2, "pinned"),
        (("--in", "image"), 5, "there is no image to run in"),
        (("--vllm-python", "/nonexistent"), 5, "/nonexistent"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_starts(
    site: Site, options: tuple[str, ...], code: int, said: str
) -> None:
    outcome = site.start(*options, code=code)
    assert said in outcome.err
    outcome.check_one_block()
    site.check_nothing_left()


def test_a_manifest_without_a_lock_is_not_served(site: Site) -> None:
    site.config.with_name("tiny.lock.json").unlink()
    outcome = site.start(code=2)
    assert "there is no lock yet" in outcome.err
    assert f"dis lock {site.config}" in outcome.err
    assert "--locked" not in outcome.err  # which nobody gave


def test_a_model_that_is_not_what_was_pinned_is_not_served(site: Site) -> None:
    closure = site.start("--json").document["closure"]
    assert site.dis("serve", "kill").code == 0
    files = site.dis("path-info", closure, "--json").document
    weights = next((Path(files[0]["path"]) / "model").glob("*.safetensors")).resolve()
    weights.chmod(0o644)
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    outcome = site.start(code=4)
    assert "model.safetensors" in outcome.err
    outcome.check_one_block()
    assert site.listed() == []


def test_stopping_what_is_not_there_says_so(site: Site) -> None:
    outcome = site.dis("serve", "kill")
    assert (outcome.code, outcome.out) == (0, "")
    assert "there is no server to stop" in outcome.err
    assert site.dis("serve", "kill", "--all", "--json").document["stopped"] == []
    unknown = site.dis("serve", "kill", "nobody")
    assert (unknown.code, "there is no server 'nobody'" in unknown.err) == (2, True)
    assert site.dis("serve", "kill", "x", "--all").code == 2
    assert (site.dis("serve", "list").out, site.listed()) == ("", [])


def test_a_damaged_record_stops_nothing_but_what_is_about_it(site: Site) -> None:
    site.start()
    broken = site.state / "servers/broken/record.json"
    broken.parent.mkdir(mode=0o700)
    broken.write_text("{", "utf-8")
    outcome = site.dis("serve", "list")
    assert (outcome.code, "tiny" in outcome.out) == (4, True)
    assert f"{broken} is damaged" in outcome.err
    outcome.check_one_block()
    stopped = site.dis("serve", "kill", "--all")
    assert (stopped.code, "stopped tiny" in stopped.err) == (4, True)
    broken.unlink()
    site.check_nothing_left()


def test_names_are_completed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.start("--no-wait")
    monkeypatch.setenv("_DIS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "dis serve kill t")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert site.dis().out.split() == ["plain,tiny"]
    monkeypatch.delenv("_DIS_COMPLETE")


def test_a_server_in_a_cloud_is_refused_with_what_to_do_instead(dis: Dis) -> None:
    outcome = dis("serve-modal", "--config", "x.json")
    assert outcome.code == 2
    assert "docs/reference/coming-from-deterministic-inference.md" in outcome.err
    outcome.check_one_block()
