"""Weights need the memory of the form in which they are loaded, whatever form they lie in."""

from pathlib import Path

from checkpoints import CheckpointShape, random_tensors
from dis_derivations.graph.compilation import compile_graph
from dis_derivations.graph.derivation import Derivation
from dis_derivations.lock.document import Lock
from dis_derivations.manifest.loading import load_manifest
from dis_derivations.realisation.weights_size import loaded_size
from dis_store import Store
from gguf_files import write_gguf
from tiny_runs import lock_of, realise, write_manifest

FILES = 'model.weights.files=[{"path":"tiny.gguf"}]'


def weights_of(config: Path, *overrides: str) -> Derivation:
    lock = Lock.decode(lock_of(config).read_bytes(), name="lock")
    graph = compile_graph(load_manifest(config, overrides), lock)
    return graph.derivations[graph.target("weights")]


def test_safetensors_are_as_large_as_their_files(store: Store, config: Path) -> None:
    realise(store, config, target="weights")
    file = config.parent / "model/model.safetensors"
    assert loaded_size(store, weights_of(config)) == file.stat().st_size


def test_a_gguf_file_is_as_large_as_what_it_converts_to(store: Store, tmp_path: Path) -> None:
    config = write_manifest(tmp_path / "place")
    file = write_gguf(tmp_path / "place/model/tiny.gguf", CheckpointShape(), stored="Q4_0")
    realise(store, config, FILES, target="weights")
    numbers = sum(tensor.size for tensor in random_tensors(CheckpointShape(), 1).values())
    found = loaded_size(store, weights_of(config, FILES))
    assert found == max(2 * numbers, file.stat().st_size)
    with Store.open(tmp_path / "empty") as empty:
        assert loaded_size(empty, weights_of(config, FILES)) == file.stat().st_size
