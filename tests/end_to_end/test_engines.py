"""The engines mock and openai_compatible through the command; the server is one that a test scripts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripted_server import ScriptedServer, die, doing, scripted_server
from tiny_runs import write_manifest

ROOT = Path(__file__).parents[2]
LOGITS = '{"enabled":true,"capture_prefill":true,"capture_decode":true}'
KEY = "sesame-open-4711"
MANY = tuple(f"prompt {number}" for number in range(130))


def manifest(place: Path, backend: str, prompts: tuple[str, ...] = (), **execution: Any) -> Path:
    """Write a manifest for an engine."""
    path = write_manifest(place, **({"prompts": prompts} if prompts else {}))
    document = json.loads(path.read_text("utf-8"))
    document["runtime"]["execution"] = {"backend": backend, **execution}
    document["vllm"]["engine_args"] |= {"max_model_len": 256}
    path.write_text(json.dumps(document), "utf-8")
    return path


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


def test_a_mock_run_says_so_wherever_it_is_looked_at(dis: Any, tmp_path: Path) -> None:
    config = manifest(tmp_path / "tiny", "mock")
    options = ("--set", "runtime.network_policy=offline_required")
    made = dis("realize", config, "--name", "mocked", "--rebuild", "--json", *options).json
    assert made["reproductions"]["identical"] == 2
    assert dis("show", "mocked").stdout.startswith("WARNING: MOCK ENGINE")
    assert dis("show", "mocked", "--json").json["engine"] == "mock"
    bundle = dis("cat", "mocked", "bundle.json").json
    assert bundle["grade"] == "non_conformant_software"
    assert bundle["engine"]["note"].startswith("MOCK ENGINE")
    assert bundle["platform"]["class"] == "any"
    pair = ("--bundle-a", "mocked", "--bundle-b", "mocked", "--output-dir", tmp_path / "report")
    found = dis("verify", *pair, "--json", expect=None)
    assert found.json["grade"] == "non_conformant_software"
    directory = tmp_path / "laid-out"
    dis("run", config, "--run-dir", directory, *options)
    for name in ("engine.json", "bundle.json", "run_log.json"):
        assert "MOCK ENGINE" in (directory / name).read_text("utf-8")
    assert dis("realize", config, "--json", *options).json["cached"] is True


def test_without_an_interpreter_it_is_said_how_to_name_that_of_transformers(
    dis: Any, tmp_path: Path
) -> None:
    config = manifest(tmp_path / "tiny", "transformers")
    told = dis.having(extra={"DIS_VLLM_PYTHON": "/usr/bin/python3"})("realize", config, expect=5)
    assert "it is not known where transformers is installed" in told.stderr
    assert "--transformers-python PATH, or DIS_TRANSFORMERS_PYTHON" in told.stderr
    (config.parent / "dis.toml").write_text('transformers_python = "/tmp/evil"\n', "utf-8")
    finished = dis.having(cwd=config.parent)("realize", config, expect=2)
    assert "may not set transformers_python" in finished.stderr


@pytest.mark.oracle
def test_transformers_is_rebuilt_with_equal_bits_and_agrees_with_the_reference_engine(
    dis: Any, tmp_path: Path
) -> None:
    python = ROOT / ".venv-oracle/bin/python"
    if not python.exists():
        pytest.skip("run `make oracle`")
    config = manifest(tmp_path / "tiny", "transformers")
    options = ("--set", "vllm.engine_args.dtype=float64", "--set", "capture.logits=" + LOGITS)
    named = dis.having(extra={"DIS_TRANSFORMERS_PYTHON": str(python)})
    made = named("realize", config, "--name", "one", "--rebuild", "--json", *options).json
    assert made["reproductions"]["identical"] == 2
    reference = ("--set", "runtime.execution.backend=reference")
    dis("realize", config, "--name", "two", *options, *reference)
    found = dis("diff", "one", "two", "--json", expect=1).json
    assert found["observables"]["tokens"] == "identical"
    bundle = dis("cat", "one", "bundle.json").json
    assert bundle["engine"]["environment"]["kind"] == "installed"
    assert bundle["platform"]["class"] == "cpu"
    assert str(python.parent) not in json.dumps(bundle)


def test_a_run_on_a_server_is_remembered_and_names_what_the_server_is_not(
    dis: Any, tmp_path: Path, scripted: ScriptedServer
) -> None:
    config = manifest(tmp_path / "tiny", "openai_compatible", base_url=scripted.url)
    changed = ("--set", "vllm.engine_args.dtype=float32")
    finished = dis("realize", config, "--name", "asked", "--json", *changed)
    assert "dtype: the manifest wants 'float32', and the server has 'bfloat16'" in finished.stderr
    assert len(scripted.bodies) == 3
    shown = dis("show", "asked").stdout
    assert "vllm.engine_args.dtype" in shown
    assert "nothing proves" in shown
    bundle = dis("cat", "asked", "bundle.json").json
    assert bundle["grade"] == "non_conformant_software"
    assert bundle["engine"]["environment"]["version"] == "0.32.0"
    assert scripted.place not in json.dumps(bundle["engine"])
    assert dis("realize", config, "--json", *changed).json["cached"] is True
    assert len(scripted.bodies) == 3
    scripted.version = "0.33.0"
    assert dis("realize", config, "--json", *changed).json["cached"] is False


def test_a_server_is_not_asked_where_the_network_is_forbidden(
    dis: Any, tmp_path: Path, scripted: ScriptedServer
) -> None:
    config = manifest(tmp_path / "tiny", "openai_compatible", base_url=scripted.url)
    forbidden = ("--set", "runtime.network_policy=offline_required")
    assert "over the network" in dis("realize", config, *forbidden, expect=5).stderr
    assert scripted.keys == []


def test_a_server_that_dies_in_the_middle_costs_no_finished_shard(
    dis: Any, tmp_path: Path, scripted: ScriptedServer
) -> None:
    config = manifest(tmp_path / "tiny", "openai_compatible", MANY, base_url=scripted.url)
    scripted.changes.extend([lambda answer: answer] * 129 + [doing(die)])
    finished = dis("realize", config, expect=3)
    assert finished.stderr.count("error:") == 1
    assert "has no answer from the server" in finished.stderr
    assert len(scripted.bodies) == 130
    dis("realize", config, "--name", "done")
    # The shard of 128 requests was there; the one of 2 is made again.
    assert len(scripted.bodies) == 132
    assert len(dis("cat", "done", "tokens.json").json["sequences"]) == 130


def test_a_key_is_shown_to_its_server_and_is_nowhere_else(
    dis: Any, tmp_path: Path, scripted: ScriptedServer
) -> None:
    config = manifest(tmp_path / "tiny", "openai_compatible", base_url=scripted.url)
    key = f"http://{scripted.place} {KEY}"
    finished = dis.having(extra={"DIS_SERVER_API_KEY": key})(
        "realize", config, "--name", "asked", "-v"
    )
    assert set(scripted.keys) == {f"Bearer {KEY}"}
    assert KEY not in finished.stdout + finished.stderr
    for place in (tmp_path / "store", tmp_path / "home", tmp_path / "tiny"):
        for path in place.rglob("*"):
            assert not path.is_file() or KEY.encode() not in path.read_bytes()
    elsewhere = dis.having(extra={"DIS_SERVER_API_KEY": f"https://h.example {KEY}"})
    scripted.keys.clear()
    elsewhere("realize", config, "--set", "vllm.engine_args.seed=3")
    assert set(scripted.keys) == {None}
