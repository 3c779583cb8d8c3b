"""Files at addresses as a source: what can be told before they come, and what is taken."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dis_derivations.lock.location import LockLocation
from dis_derivations.lock.making import make_lock
from dis_derivations.lock.refusals import LockRefusedError
from dis_derivations.manifest.loading import load_manifest
from dis_derivations.sources.source import WantedFile
from dis_derivations.sources.url import UrlSource
from dis_derivations.transport.client import Client
from dis_store import Store
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError, MismatchError
from file_server import Script, Served, Serving, serving
from model_directories import safetensors_bytes
from tiny_runs import write_manifest
from transport_site import CONDUCT

WEIGHTS = safetensors_bytes(1.0, 2.0)
CANARY = "canary-5up3r"


@pytest.fixture
def server() -> Iterator[Serving]:
    script = Script({"/m/model.safetensors": Served(WEIGHTS), "/m/a b/c.txt": Served(b"text")})
    with serving(script) as running:
        yield running


def source(url: str, *mirrors: str, **options: Any) -> UrlSource:
    return UrlSource(url, mirrors, client=Client.of(CONDUCT, {}), **options)


def fetch(top: Path, source: UrlSource, *wanted: WantedFile) -> list[str]:
    with Store.open(top) as store, store.new_tree() as tree:
        return [written.path for written in source.fetch(wanted, tree, lambda: None)]


def test_files_lie_below_a_directory(server: Serving, tmp_path: Path) -> None:
    found = source(server.url("/m/"))
    assert found.listing() == []
    assert found.problem("model.safetensors") is None
    assert found.size("model.safetensors") == len(WEIGHTS)
    assert found.size("a b/c.txt") == 4
    assert server.script.sent == 0
    paths = ["a b/c.txt", "model.safetensors"]
    assert fetch(tmp_path / "store", found, *map(WantedFile, paths)) == paths


def test_an_address_without_a_slash_is_that_of_one_file(server: Serving, tmp_path: Path) -> None:
    found = source(server.url("/m/model.safetensors"))
    assert found.size("renamed.safetensors") == len(WEIGHTS)
    assert found.disagreement(["renamed.safetensors"]) is None
    problem = found.disagreement(["one", "two"])
    assert problem is not None
    assert "one file" in problem.message
    assert fetch(tmp_path / "store", found, WantedFile("renamed.safetensors")) == [
        "renamed.safetensors"
    ]


def test_what_cannot_be_had_is_told_before_it_is_fetched(server: Serving) -> None:
    found = source(server.url("/m/"))
    missing = found.problem("missing.safetensors")
    assert missing is not None
    assert missing.reason == "not_found"
    assert "404" in missing.message
    pickle = found.problem("pytorch_model.bin")
    assert pickle is not None
    assert pickle.reason == "unsafe_file"
    with serving() as gone:
        pass
    away = source(gone.url("/m/")).problem("model.safetensors")
    assert away is not None
    assert away.reason == "source_unavailable"


def test_a_mirror_answers_where_the_first_address_does_not(server: Serving, tmp_path: Path) -> None:
    found = source(server.url("/gone/"), server.url("/m/"))
    assert found.problem("model.safetensors") is None
    assert found.size("model.safetensors") == len(WEIGHTS)
    fetch(tmp_path / "store", found, WantedFile("model.safetensors"))
    (note,) = found.remarks
    assert "404" in note


def test_a_mirror_with_other_bytes_is_passed_over(server: Serving, tmp_path: Path) -> None:
    server.script.files["/bad/model.safetensors"] = Served(safetensors_bytes(3.0, 4.0))
    sha256 = Sha256(f"sha256:{hashlib.sha256(WEIGHTS).hexdigest()}")
    wanted = WantedFile("model.safetensors", len(WEIGHTS), sha256)
    found = source(server.url("/bad/"), server.url("/m/"))
    assert fetch(tmp_path / "store", found, wanted) == ["model.safetensors"]
    assert len(found.remarks) == 1
    with pytest.raises(MismatchError):
        fetch(tmp_path / "other", source(server.url("/bad/")), wanted)


# Locking


def manifest(tmp_path: Path, server: Serving, **source: Any) -> Path:
    """Write the tiny manifest, its model at the server, and return it."""
    config = write_manifest(tmp_path)
    document = json.loads(config.read_text("utf-8"))
    model = tmp_path / "model"
    names = {
        "weights": ["model.safetensors"],
        "tokenizer": [p.name for p in model.glob("tokenizer*.json")],
        "config": ["config.json"],
    }
    for path in model.iterdir():
        server.script.files[f"/tiny/{path.name}"] = Served(path.read_bytes())
    for block, files in names.items():
        document["model"][block]["files"] = [{"path": name} for name in sorted(files)]
    document["model"]["weights"]["source"] = {
        "type": "url",
        "url": server.url("/tiny/"),
        **source,
    }
    config.write_text(json.dumps(document), "utf-8")
    return config


def lock(tmp_path: Path, config: Path, *overrides: str) -> Any:
    with Store.open(tmp_path / "store") as store:
        loaded = load_manifest(config, overrides)
        made, _ = make_lock(store, loaded, LockLocation.of(loaded.raw))
        return made


def test_locking_downloads_and_pins_what_came(server: Serving, tmp_path: Path) -> None:
    config = manifest(tmp_path, server)
    made = lock(tmp_path, config)
    by_path = {file.path: file for file in made.artifacts}
    weights = server.script.files["/tiny/model.safetensors"].data
    found = by_path["model.safetensors"]
    assert found.digest == f"sha256:{hashlib.sha256(weights).hexdigest()}"
    assert dict(found.retrieval) == {
        "type": "url",
        "url": server.url("/tiny/"),
        "files": "listed",
    }
    sent = server.script.sent
    assert lock(tmp_path, config) == made
    assert server.script.sent == sent


def test_locking_refuses_a_declared_digest_that_no_server_has(
    server: Serving, tmp_path: Path
) -> None:
    config = manifest(tmp_path, server)
    digest = f"sha256:{'5' * 64}"
    with pytest.raises(MismatchError) as caught:
        lock(tmp_path, config, f"model.weights.files.0.digest={digest}")
    assert digest in str(caught.value.cause)


def test_weights_that_could_run_code_are_refused_when_they_have_come(
    server: Serving, tmp_path: Path
) -> None:
    config = manifest(tmp_path, server)
    server.script.files["/tiny/model.safetensors"] = Served(b"\x80\x04K\x01." * 100)
    with pytest.raises(InvalidInputError, match="pickle"):
        lock(tmp_path, config)
    assert list((tmp_path / "store" / "downloads").glob("*/part")) == []


def test_the_address_of_one_file_serves_no_other_artifact(server: Serving, tmp_path: Path) -> None:
    config = manifest(tmp_path, server, url=server.url("/tiny/model.safetensors"))
    with pytest.raises(LockRefusedError, match="address of one file"):
        lock(tmp_path, config)


def test_files_of_an_address_are_listed_or_refused(server: Serving, tmp_path: Path) -> None:
    config = manifest(tmp_path, server)
    with pytest.raises(InvalidInputError, match="must list its 'files'"):
        lock(tmp_path, config, "model.tokenizer.files=[]")


@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{CANARY}@example.org/m/",
        f"https://example.org/m/?token={CANARY}",
        f"http://user:{CANARY}@example.org/m/",
    ],
)
@pytest.mark.parametrize("field", ["url", "mirrors"])
def test_a_manifest_with_a_secret_in_an_address_is_refused_and_the_secret_not_told(
    server: Serving, tmp_path: Path, url: str, field: str
) -> None:
    config = manifest(tmp_path, server, **{field: url if field == "url" else [url]})
    with pytest.raises(InvalidInputError) as caught:
        load_manifest(config)
    assert CANARY not in f"{caught.value} {caught.value.hint}"
    assert "netrc" in str(caught.value) or "this machine alone" in str(caught.value)
    value = json.dumps(url if field == "url" else [url])
    with pytest.raises(InvalidInputError) as caught:
        load_manifest(write_manifest(tmp_path / "other"), [f"model.weights.source.{field}={value}"])
    assert CANARY not in f"{caught.value} {caught.value.hint}"
