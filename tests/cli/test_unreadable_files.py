"""A disk that does not give what it holds: the file is named, the exit code is that of damage, nothing is lost."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from auditing import audit
from checkpoints import CheckpointShape
from command_line import SHORTER, Dis, Outcome, Realised
from disks import unfit
from gguf_files import write_gguf
from tiny_runs import write_manifest

pytestmark = pytest.mark.slow
DAMAGED = 4
_READS = "read,pread64,readv,preadv,preadv2,copy_file_range,sendfile"
# By which weights and documents are read, and what hashes them first is not.
_READ_OF_WEIGHTS = "preadv,preadv2"
_READ_OF_DOCUMENTS = "read"
Unreadable = Callable[..., Outcome]


def bundle_document(store: Realised) -> Path:
    return store.path_of("first") / "bundle.json"


def logits(store: Realised) -> Path:
    return (store.path_of("first") / "logits.safetensors").resolve()


def weights(store: Realised) -> Path:
    (found,) = store.store.glob("objects/*/*/model.safetensors")
    return found


def model_config(store: Realised) -> Path:
    (found,) = store.store.glob("objects/*/*/config.json")
    return found


def generation_config(store: Realised) -> Path:
    return model_config(store).with_name("generation_config.json")


def tokenizer(store: Realised) -> Path:
    (found,) = store.store.glob("objects/*/*/tokenizer.json")
    return found


def manifest(store: Realised) -> Path:
    digest = store.path_of("first").name
    return store.store / "manifests" / digest[:2] / f"{digest}.json"


def root(store: Realised) -> Path:
    return store.store / "roots" / "first.json"


def build_record(store: Realised) -> Path:
    return next(store.store.glob("realisations/*/*/*.json"))


def derivation(store: Realised) -> Path:
    return next(store.store.glob("derivations/*/*.json"))


@pytest.fixture
def unreadable(own_store: Realised, tmp_path: Path) -> Unreadable:
    """Return the command as a function of a file that cannot be read, and arguments."""
    if shutil.which("strace") is None:
        unfit("strace is not installed")

    def call(file: Path, *argv: str, calls: str = _READS) -> Outcome:
        done = subprocess.run(
            [
                *("strace", "-f", "-qq", "--seccomp-bpf", "-o", os.devnull, "-P", str(file)),
                *("-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO"),
                *(sys.executable, "-m", "dis_command", *argv),
                *("--store", str(own_store.store), "--progress", "none"),
            ],
            env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        outcome = Outcome(done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in outcome.err, outcome.err
        return outcome

    return call


@pytest.mark.parametrize(
    ("file", "argv"),
    [
        (logits, ["cat", "first", "logits.safetensors"]),
        (logits, ["bundle", "first", "--output", "first.tar.gz"]),
        (logits, ["store", "export", "first", "--output", "first.tar"]),
        (logits, ["run", "CONFIG", "--run-dir", "laid-out"]),
        (logits, ["diff", "first", "second"]),
        (bundle_document, ["show", "first"]),
        (manifest, ["ls", "first"]),
        (root, ["gc"]),
        (root, ["show", "first"]),
        (weights, ["realize", "CONFIG", "--set", "inference.n_prompts=1"]),
    ],
    ids=lambda each: each.__name__ if callable(each) else " ".join(each[:2]),
)
def test_what_needs_a_file_that_cannot_be_read_says_which(
    own_store: Realised,
    unreadable: Unreadable,
    file: Callable[[Realised], Path],
    argv: list[str],
) -> None:
    spoilt = file(own_store)
    words = [str(own_store.config) if word == "CONFIG" else word for word in argv]
    if argv[0] == "run":
        # As the run that is there was asked for.
        words += ["--set", "inference.n_prompts=2", "--set", SHORTER]
    outcome = unreadable(spoilt, *words)
    assert outcome.code == DAMAGED, outcome.err
    outcome.check_one_block()
    assert "Input/output error" in outcome.err
    assert spoilt.name in outcome.err or repr(spoilt.stem) in outcome.err
    assert audit(own_store.store) == []


@pytest.mark.parametrize(
    ("file", "calls"),
    [
        (weights, _READ_OF_WEIGHTS),
        (model_config, _READ_OF_DOCUMENTS),
        (generation_config, _READ_OF_DOCUMENTS),
        (tokenizer, _READ_OF_DOCUMENTS),
    ],
)
def test_what_an_engine_cannot_read_after_it_was_verified_is_named(
    own_store: Realised,
    unreadable: Unreadable,
    dis: Dis,
    file: Callable[[Realised], Path],
    calls: str,
) -> None:
    spoilt = file(own_store)
    argv = ("realize", str(own_store.config), "--set", "inference.n_prompts=1")
    check_names(unreadable(spoilt, *argv, calls=calls), spoilt)
    assert audit(own_store.store) == []
    assert dis(*argv).code == 0


def test_a_gguf_file_that_cannot_be_read_after_it_was_verified_is_named(
    own_store: Realised, unreadable: Unreadable, tmp_path: Path, dis: Dis
) -> None:
    write_manifest(tmp_path / "place")
    write_gguf(tmp_path / "place/model/tiny.gguf", CheckpointShape(), template=None)
    argv = (
        str(tmp_path / "place/tiny.json"),
        "--set",
        'model.weights.files=[{"path":"tiny.gguf"}]',
    )
    assert dis("realize", f"{argv[0]}#weights", *argv[1:]).code == 0
    (spoilt,) = own_store.store.glob("objects/*/*/tiny.gguf")
    check_names(unreadable(spoilt, "realize", *argv, calls=_READ_OF_WEIGHTS), spoilt)
    assert audit(own_store.store) == []
    assert dis("realize", *argv).code == 0


def check_names(outcome: Outcome, spoilt: Path) -> None:
    assert outcome.code == DAMAGED, outcome.err
    outcome.check_one_block()
    assert f"{spoilt} cannot be read" in outcome.err
    assert "Input/output error" in outcome.err
    assert "dis store verify --all" in outcome.err


@pytest.mark.parametrize("file", [logits, manifest, root, build_record, derivation])
def test_verify_tells_of_a_file_that_cannot_be_read_and_goes_on(
    own_store: Realised, unreadable: Unreadable, file: Callable[[Realised], Path]
) -> None:
    outcome = unreadable(file(own_store), "store", "verify", "--all")
    assert outcome.code == DAMAGED
    assert "1 problem" in outcome.out
    assert "Input/output error" in outcome.out


@pytest.mark.parametrize("file", [logits, manifest, build_record, derivation])
def test_reindex_sets_a_file_that_cannot_be_read_aside_and_keeps_the_rest(
    own_store: Realised, unreadable: Unreadable, file: Callable[[Realised], Path]
) -> None:
    spoilt = file(own_store)
    outcome = unreadable(spoilt, "store", "reindex")
    assert outcome.code == DAMAGED, outcome.err
    assert "Input/output error" in outcome.out
    assert not spoilt.exists()
    assert any((own_store.store / "quarantine").iterdir())


@pytest.mark.parametrize("adopt", [False, True])
def test_a_file_to_be_added_that_cannot_be_read_is_named_and_stays(
    own_store: Realised, unreadable: Unreadable, tmp_path: Path, adopt: bool
) -> None:
    source = tmp_path / "model" / "only.bin"
    source.parent.mkdir()
    source.write_bytes(b"the only copy" * 1000)
    outcome = unreadable(source, "store", "add", *["--adopt"][:adopt], str(source.parent))
    assert outcome.code == DAMAGED, outcome.err
    outcome.check_one_block()
    assert str(source) in outcome.err
    assert source.read_bytes() == b"the only copy" * 1000
    assert source.stat().st_mode & 0o200
    assert audit(own_store.store) == []
