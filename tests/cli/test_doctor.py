"""`dis doctor`: lines that say what is wrong, and an exit code that says whether anything is."""

import json
import os
import stat
import time
from pathlib import Path

import pytest

from command_line import Dis, Realised


def statuses(dis: Dis, *argv: str) -> dict[str, str]:
    checks = dis("doctor", "--json", *argv).document["checks"]
    return {check["name"]: check["status"] for check in checks}


def test_a_fit_machine_passes(dis: Dis, realised: Realised) -> None:
    del realised
    outcome = dis("doctor")
    assert (outcome.code, outcome.err) == (0, "")
    lines = [line for line in outcome.out.splitlines() if not line.startswith("       fix: ")]
    assert all(line.startswith(("[PASS] ", "[INFO] ", "[WARN] ")) for line in lines)
    found = statuses(dis)
    for name in ("store", "file system", "links", "python", "sqlite", "tokenizers", "numpy"):
        assert found[name] in {"PASS", "WARN"}
    assert found["engine reference"] == "PASS"
    assert found["engine vllm"] == "INFO"
    assert {"docker", "gpu", "clock", "PATH", "blas", "disk space"} <= set(found)


def test_a_store_that_is_not_there_is_not_made(dis: Dis, tmp_path: Path) -> None:
    assert statuses(dis)["store"] == "PASS"
    assert not (tmp_path / "empty-store").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_made_is_a_failure_with_a_fix(dis: Dis) -> None:
    outcome = dis("doctor", "--store", "/proc/dis-store")
    assert outcome.code == 5
    assert "[FAIL] " in outcome.out
    assert "fix: " in outcome.out


def test_a_newer_store_is_a_failure(dis: Dis, own_store: Realised) -> None:
    record = own_store.store / "format.json"
    record.chmod(0o644)
    record.write_text('{"format":99,"type":"store"}\n', encoding="utf-8")
    outcome = dis("doctor")
    assert outcome.code == 5
    assert "format 99" in outcome.out


def test_a_broken_config_file_is_a_failure(
    dis: Dis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DIS_STORE")
    path = tmp_path / "xdg" / "config" / "dis" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("store =", encoding="utf-8")
    outcome = dis("doctor")
    assert outcome.code == 5
    assert "not valid TOML" in outcome.out


def test_another_program_called_dis_is_a_warning(
    dis: Dis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("ours", "#!/bin/sh\n# dis_command\n"), ("theirs", "#!/bin/sh\n")):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "dis"
        program.write_text(text, encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path / "ours"))
    assert statuses(dis)["PATH"] == "PASS"
    both = os.pathsep.join([str(tmp_path / "theirs"), str(tmp_path / "ours")])
    monkeypatch.setenv("PATH", both)
    assert statuses(dis)["PATH"] == "WARN"
    assert f"another program comes first: {tmp_path / 'theirs' / 'dis'}" in dis("doctor").out


def test_a_path_that_cannot_be_searched_stops_no_check(
    dis: Dis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(["a" * 5000, "/etc/passwd", ""]))
    assert statuses(dis)["PATH"] == "INFO"
    monkeypatch.delenv("PATH")
    assert statuses(dis, "--store", "a" * 5000)["PATH"] == "INFO"


def test_a_clock_in_the_past_is_a_warning(dis: Dis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert statuses(dis)["clock"] == "WARN"


def test_badges_are_coloured_when_asked(dis: Dis) -> None:
    assert "\x1b[32m[PASS]\x1b[0m" in dis("doctor", "--color", "always").out
    assert "\x1b" not in dis("doctor").out


def details(dis: Dis) -> dict[str, tuple[str, str]]:
    checks = dis("doctor", "--json").document["checks"]
    return {check["name"]: (check["status"], check["detail"]) for check in checks}


def test_the_docker_engine_that_runs_would_use_is_looked_for(
    dis: Dis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    status, detail = details(dis)["docker"]
    assert (status, "runs in an image" in detail) == ("INFO", True)
    (tmp_path / "socket").write_bytes(b"")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/socket")
    assert details(dis)["docker"] == ("PASS", f"socket {tmp_path}/socket")
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert details(dis)["docker"][1].endswith("not contacted")
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("DOCKER_CONTEXT", "nowhere")
    assert details(dis)["docker"][0] == "WARN"


def test_registries_with_a_password_are_named_and_no_password_is(
    dis: Dis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert details(dis)["registries"][0] == "INFO"
    config = tmp_path / "config.json"
    kept = "bmFtZTpwYXNzd29yZA=="
    config.write_text(
        json.dumps(
            {
                "auths": {"https://index.docker.io/v1/": {"auth": kept}},
                "credHelpers": {"registry.example.org": "pass"},
            }
        ),
        encoding="utf-8",
    )
    status, detail = details(dis)["registries"]
    assert (status, kept in dis("doctor").out) == ("PASS", False)
    assert detail.startswith("passwords for docker.io, registry.example.org, ")
    config.write_text('{"credsStore": "desktop"}', encoding="utf-8")
    assert "docker-credential-desktop" in details(dis)["registries"][1]
    config.write_text("[]", encoding="utf-8")
    assert details(dis)["registries"][0] == "WARN"


def test_a_token_for_the_hub_is_found_where_its_own_tools_leave_it(
    dis: Dis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "HF_TOKEN",
        "HF_TOKEN_PATH",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "HF_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert details(dis)["hub"][0] == "INFO"
    (tmp_path / "token").write_text("hf_secret", encoding="utf-8")
    assert details(dis)["hub"] == (
        "PASS",
        f"https://huggingface.co, with the token in {tmp_path}/token",
    )
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert details(dis)["hub"][1].endswith("the token in HF_TOKEN")
    assert "hf_" not in dis("doctor").out
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert details(dis)["hub"][0] == "INFO"
    monkeypatch.setenv("HF_ENDPOINT", "no address")
    assert details(dis)["hub"][0] == "WARN"
