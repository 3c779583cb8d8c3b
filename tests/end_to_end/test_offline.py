"""Builds of a manifest that wants no network: they have none, and trying it fails them and is told."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import network_errands
from tiny_runs import write_manifest

# The fixture of this directory: calls `dis` in a process.
Command = Any
OFFLINE = "runtime.network_policy=offline_required"
ONLINE = "runtime.network_policy=online_allowed"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return write_manifest(tmp_path / "manifest")


def logs(store: Path, name: str) -> list[str]:
    """Return the lines about the network in all logs of one file name, without their times."""
    texts = [path.read_text("utf-8") for path in sorted((store / "objects").rglob(name))]
    lines = [line for text in texts for line in text.splitlines()]
    return [line[line.index("network:") :] for line in lines if "network:" in line]


def test_every_build_runs_without_network_and_says_so(dis: Command, manifest: Path) -> None:
    dis("realize", manifest, "--set", OFFLINE)
    said = logs(dis.store, "build.log")
    assert said.count("network: denied by a network namespace of its own") == 4
    assert said.count("network: no attempt, recorded by packet capture") == 4
    records = [
        json.loads(path.read_bytes()) for path in (dis.store / "objects").rglob("network.json")
    ]
    assert len(records) == 4
    assert all(
        record
        == {
            "format": 1,
            "policy": "offline_required",
            "enforced_by": "a network namespace of its own",
            "recorded_by": "packet capture",
            "attempts": 0,
        }
        for record in records
    )


def test_the_log_of_a_run_says_what_kept_it_off_the_network(dis: Command, manifest: Path) -> None:
    dis("run", manifest, "--set", OFFLINE, "--run-dir", dis.store.parent / "run")
    log = json.loads((dis.store.parent / "run/run_log.json").read_bytes())
    assert log["determinism_controls"]["network"] == {
        "policy": "offline_required",
        "enforced_by": "a network namespace of its own",
        "recorded_by": "packet capture",
        "attempts": 0,
    }


@pytest.mark.slow
def test_the_policy_changes_no_result(dis: Command, manifest: Path) -> None:
    for policy in (OFFLINE, ONLINE):
        dis("realize", manifest, "--set", policy, "--name", policy.partition("=")[2].split("_")[0])
    assert dis("diff", "offline", "online").code == 0
    again = dis("realize", f"{manifest}#generation", "--set", OFFLINE, "--json").json
    assert again["cached"]


@pytest.mark.parametrize(
    ("code", "place"),
    [
        (network_errands.BY_CHILD, "192.0.2.1 port 80 (tcp)"),
        (network_errands.BY_NATIVE_CODE, "198.51.100.1 port 443 (tcp)"),
        pytest.param(
            network_errands.BY_IPV6, "2001:db8::7 port 8080 (tcp)", marks=pytest.mark.slow
        ),
        pytest.param(
            network_errands.BY_DATAGRAM, "203.0.113.9 port 9 (udp)", marks=pytest.mark.slow
        ),
        (network_errands.BY_NAME, "looking up weights.example.org)"),
    ],
)
def test_an_attempt_fails_the_run_and_is_recorded_with_its_destination(
    dis: Command, manifest: Path, tmp_path: Path, code: str, place: str
) -> None:
    hostile = dis.having(extra=network_errands.planted(tmp_path / "planted", code))
    failed = hostile("realize", manifest, "--set", OFFLINE, expect=3)
    assert "error: the build of tiny-requests tried to use the network" in failed.stderr
    assert place in failed.stderr
    assert f"hint: if it is meant to use the network, say so: --set {ONLINE}" in failed.stderr
    log = Path(next(line for line in failed.stderr.splitlines() if "log: " in line).split()[-1])
    assert any(
        line.startswith("network: attempt to reach ") and place in line
        for line in logs(dis.store, log.name)
    )
    assert not list((dis.store / "objects").rglob("tokens.json"))
    dis("store", "verify", "--all")
    dis("realize", manifest, "--set", OFFLINE)  # without the hostile code it works


@pytest.mark.slow
def test_an_attempt_that_ends_in_another_failure_is_what_is_told(
    dis: Command, manifest: Path, tmp_path: Path
) -> None:
    code = f"{network_errands.BY_CHILD}; os.kill(os.getpid(), signal.SIGKILL)"
    hostile = dis.having(extra=network_errands.planted(tmp_path / "planted", code))
    failed = hostile("realize", manifest, "--set", OFFLINE, expect=3)
    assert "tried to use the network" in failed.stderr
    assert "192.0.2.1 port 80" in failed.stderr


def test_a_build_that_goes_on_after_an_attempt_is_ended(
    dis: Command, manifest: Path, tmp_path: Path
) -> None:
    code = f"{network_errands.BY_CHILD}; [(time.sleep(0.05), context.check_interrupted()) for _ in range(9999)]"
    hostile = dis.having(extra=network_errands.planted(tmp_path / "planted", code))
    failed = hostile("realize", manifest, "--set", OFFLINE, expect=3)
    assert "192.0.2.1 port 80" in failed.stderr


def test_the_loopback_and_the_own_name_are_no_network(
    dis: Command, manifest: Path, tmp_path: Path
) -> None:
    code = (
        "a = socket.create_server(('127.0.0.1', 0)); socket.create_connection(a.getsockname()); "
        "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.connect(('8.8.8.8', 80)); "
        "context.log.write('address: ' + u.getsockname()[0])"
    )
    planted = network_errands.planted(tmp_path / "planted", code)
    dis.having(extra=planted)("realize", manifest, "--set", OFFLINE)
    # A datagram socket that is only connected sends nothing: so engines ask which address they have.
    texts = [path.read_text("utf-8") for path in (dis.store / "objects").rglob("build.log")]
    assert any("address: 127.0.0.1" in text for text in texts)


def test_a_container_service_cannot_be_asked(dis: Command, manifest: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(tmp_path / "service.sock"))
        service.listen()
        service.settimeout(0)
        code = (
            f"code = socket.socket(socket.AF_UNIX).connect_ex({str(tmp_path / 'service.sock')!r}); "
            "context.log.write(f'answer: {os.strerror(code)}, {os.environ.get(\"DOCKER_HOST\")}')"
        )
        planted = dict(network_errands.planted(tmp_path / "planted", code))
        planted["DOCKER_HOST"] = f"unix://{tmp_path / 'service.sock'}"
        dis.having(extra=planted)("realize", manifest, "--set", OFFLINE)
        with pytest.raises(BlockingIOError):
            service.accept()
    texts = [path.read_text("utf-8") for path in (dis.store / "objects").rglob("build.log")]
    assert any("answer: Connection refused, None" in text for text in texts)


def test_builds_without_network_do_not_get_the_secrets_that_fetching_needs(
    dis: Command, manifest: Path, tmp_path: Path
) -> None:
    secrets = {
        "HF_TOKEN": "hf_canary",
        "HUGGING_FACE_HUB_TOKEN": "hf_canary",
        "https_proxy": "http://user:canary@127.0.0.1:9",
        "AWS_SECRET_ACCESS_KEY": "canary",
        "REGISTRY_PASSWORD": "canary",
        "PIP_INDEX_URL": "https://user:canary@example.org",
    }
    code = (
        "texts = [p.read_bytes() for p in pathlib.Path('/proc/self').glob('[ec][nm]*') "
        "if p.name in ('environ', 'cmdline')]; "
        "assert len(texts) == 2; context.log.write(f'canaries: {sum(t.count(b\"canary\") for t in texts)}')"
    )
    planted = network_errands.planted(tmp_path / "planted", code)
    dis.having(extra={**secrets, **planted})("realize", manifest, "--set", OFFLINE)
    texts = [path.read_text("utf-8") for path in (dis.store / "objects").rglob("build.log")]
    assert any("canaries: 0" in text for text in texts)


@pytest.mark.slow
def test_where_the_network_is_allowed_builds_are_made_in_this_process(
    dis: Command, manifest: Path, tmp_path: Path
) -> None:
    planted = network_errands.planted(tmp_path / "planted", "os._exit(1)")
    dis.having(extra=planted)("realize", manifest, "--set", ONLINE)
    assert logs(dis.store, "build.log") == []


def _without(rights: list[str], dis: Command) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    def call(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*rights, sys.executable, "-m", "dis_command", *map(str, arguments)],
            env=dis.environment,
            cwd=dis.cwd,
            capture_output=True,
            text=True,
            check=False,
        )

    return call


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("bwrap") and "CI" not in os.environ, reason="needs bubblewrap")
def test_bubblewrap_serves_where_own_namespaces_do_not(
    dis: Command, manifest: Path, tmp_path: Path
) -> None:
    # Root without the right to name users in a new namespace, but with that to make one of the network.
    rights = "-all,+sys_admin,+net_admin,+setpcap,+dac_override"
    call = _without(["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"], dis)
    done = call("realize", manifest, "--set", OFFLINE)
    assert done.returncode == 0, done.stderr
    said = logs(dis.store, "build.log")
    assert "network: denied by bubblewrap" in said
    assert (
        "network: no attempt, recorded by the kernel's counters, which tell of no destinations"
        in said
    )
    planted = network_errands.planted(tmp_path / "planted", network_errands.BY_CHILD)
    hostile = _without(["setpriv", f"--bounding-set={rights}"], dis.having(extra=planted))
    failed = hostile("realize", manifest, "--set", OFFLINE, "--set", "inference.n_prompts=1")
    assert failed.returncode == 3, failed.stderr
    assert "denied by bubblewrap: an address that is not told" in failed.stderr


@pytest.mark.slow
def test_a_machine_without_network_needs_nothing_else(dis: Command, manifest: Path) -> None:
    alone = ["unshare", "-Urn", *NO_NAMESPACES[2:]]
    done = _without(alone, dis)("realize", manifest, "--set", OFFLINE)
    assert done.returncode == 0, done.stderr
    assert "network: denied by a machine without network" in logs(dis.store, "build.log")


# A user namespace in which no network namespace may be made; what starts in it has no more of them either.
NO_NAMESPACES = [
    "unshare",
    "-Ur",
    "sh",
    "-c",
    'echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"',
    "sh",
]


def test_without_the_means_to_enforce_it_nothing_is_begun(dis: Command, manifest: Path) -> None:
    call = _without(NO_NAMESPACES, dis)
    refused = call("realize", manifest, "--set", OFFLINE)
    assert refused.returncode == 5, refused.stderr
    assert "error: builds cannot be kept off the network on this machine" in refused.stderr
    assert "a network namespace of its own: No space left on device" in refused.stderr
    assert "a machine without network: there is a network" in refused.stderr
    assert "hint: let this user have user namespaces" in refused.stderr
    assert call("realize", manifest, "--set", OFFLINE, "--dry-run").returncode == 5
    assert not manifest.with_name("tiny.lock.json").exists()
    assert not list((dis.store / "objects").iterdir())
    assert call("realize", manifest, "--set", ONLINE).returncode == 0
    # What is only fetched needs no such thing.
    assert call("realize", f"{manifest}#weights", "--set", OFFLINE).returncode == 0


def test_the_doctor_says_whether_it_can_be_enforced(dis: Command) -> None:
    line = next(line for line in dis("doctor").stdout.splitlines() if "] offline builds:" in line)
    assert line.startswith("[PASS]")
    told = _without(NO_NAMESPACES, dis)("doctor").stdout
    line = next(line for line in told.splitlines() if "] offline builds:" in line)
    assert line.startswith("[WARN]")


def _children(process: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text("ascii", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            found.append(int(status.parent.name))
    return found


def _gone(processes: list[int], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(_running(each) for each in processes):
            return True
        time.sleep(0.05)
    return False


def _running(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text("ascii", "replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _started(
    dis: Command, manifest: Path, planted: Mapping[str, str], mark: Path
) -> "subprocess.Popen[str]":
    process: subprocess.Popen[str] = dis.having(extra=planted).start(
        "realize", manifest, "--set", OFFLINE
    )
    end = time.monotonic() + 30
    while not mark.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    return process


def test_ctrl_c_ends_a_build_without_network_in_order(
    dis: Command, manifest: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    code = (
        f"pathlib.Path({str(mark)!r}).touch(); "
        "[(time.sleep(0.05), context.check_interrupted()) for _ in range(9999)]"
    )
    planted = network_errands.planted(tmp_path / "planted", code)
    process = _started(dis, manifest, planted, mark)
    children = _children(process.pid)
    assert children
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert _gone(children)
    dis("realize", manifest, "--set", OFFLINE)


@pytest.mark.slow
def test_no_process_outlives_a_dis_that_was_killed(
    dis: Command, manifest: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    code = f"s = subprocess.Popen(['sleep', '60']); pathlib.Path({str(mark)!r}).write_text(str(s.pid)); s.wait()"
    planted = network_errands.planted(tmp_path / "planted", code)
    process = _started(dis, manifest, planted, mark)
    children = _children(process.pid)
    process.kill()
    process.communicate()
    assert _gone([*children, int(mark.read_text("ascii"))])
    dis("realize", manifest, "--set", OFFLINE)


@pytest.mark.slow
def test_a_process_that_is_killed_is_a_failed_build(
    dis: Command, manifest: Path, tmp_path: Path
) -> None:
    planted = network_errands.planted(tmp_path / "planted", "os.kill(os.getpid(), signal.SIGKILL)")
    failed = dis.having(extra=planted)("realize", manifest, "--set", OFFLINE, expect=3)
    # Builds that it made side by side all fail.
    assert "the process that built tiny-requests ended before its build" in failed.stderr
    assert "it was ended by signal 9" in failed.stderr


@pytest.mark.slow
def test_errors_of_builds_are_the_same_as_where_the_network_is_allowed(
    dis: Command, manifest: Path
) -> None:
    broken = ["--set", "vllm.engine_args.max_model_len=2"]
    said = [
        dis("realize", manifest, *broken, "--set", policy, expect=None)
        for policy in (OFFLINE, ONLINE)
    ]
    blocks = [
        [
            line
            for line in each.stderr.splitlines()
            if line.startswith(("error: ", "hint: ", "  cause"))
        ]
        for each in said
    ]
    assert said[0].code == said[1].code != 0
    assert blocks[0] == blocks[1] != []
