"""What may enter the store as part of a model: nothing that runs code when it is loaded.

`check_weight_file` judges one file by its name and its bytes; `check_checkpoint` judges whether the
files of a model agree with each other. Both read headers only, never the tensors.
"""

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from dis_derivations.artifacts.gguf_types import GGUF_SUFFIX
from dis_derivations.artifacts.pickle_content import HEAD_BYTES, TAIL_BYTES, unsafe_content
from dis_derivations.artifacts.regular_file import (
    UnreadableWeightsError,
    UnsupportedWeightsError,
    open_regular,
    unreadable,
)
from dis_derivations.artifacts.safetensors_header import read_header
from dis_derivations.artifacts.shard_index import (
    INDEX_SUFFIX,
    SHARD_SUFFIX,
    InvalidIndexError,
    decode_index,
)
from dis_store import strict_json
from dis_store.environment import reading
from dis_store.errors import InvalidInputError

MAX_JSON_BYTES = 64 << 20
"""The longest index or configuration that is read."""

_PICKLE_SUFFIXES = frozenset(
    {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".dill", ".npz"}
)
_CODE_SUFFIXES = frozenset({".py", ".pyc"})
_GGUF_MAGICS = (b"GGUF", b"GGML", b"lmgg", b"fmgg", b"tjgg")
_SAFE_IN_A_COMMAND = re.compile(r"[\w./-]+")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


class UnsafeWeightsError(InvalidInputError):
    """A file of a model could run code when it is loaded."""

    code = "E0221"


def check_weight_file(name: str, source: Path, *, allow_remote_code: bool = False) -> None:
    """Refuse a file of a model that runs code when loaded, or that is not what its name says.

    Args:
        name: The file's name inside the model; messages use it.
        source: Where its bytes are.
        allow_remote_code: Whether the manifest pins and trusts code that comes with the model.

    Raises:
        UnsafeWeightsError: It is a pickle by name or by content, Python code, or a configuration
            that has code loaded (`auto_map`).
        UnreadableWeightsError: It is a *.safetensors or *.gguf that does not parse, or cannot be read.
        InvalidIndexError: It is an index that names anything but plain safetensors files.
        InvalidInputError: It is a configuration that is not strict JSON.
        UnsupportedWeightsError: It is a GGUF file that cannot be converted, or one that is called something else.
    """
    check_name(name, allow_remote_code=allow_remote_code)
    suffix = _suffix(name)
    head, tail = _ends(name, source)
    if suffix == GGUF_SUFFIX:
        _check_gguf(name, source)
        return
    if head.startswith(_GGUF_MAGICS):
        raise UnsupportedWeightsError(
            f"{name} is a GGUF file",
            cause=f"such a file is taken for weights when its name ends in {GGUF_SUFFIX}",
            hint="rename it, and name it as the one file of model.weights.files",
        )
    if head.startswith(_LFS_POINTER):
        raise UnreadableWeightsError(
            f"{name} is a Git LFS pointer, not the file itself", hint="fetch it: git lfs pull"
        )
    if suffix == SHARD_SUFFIX:
        _check_safetensors(name, source, head, tail)
    elif found := unsafe_content(head, tail):
        raise _pickle_refused(name, f"by its content it is {found}")
    _check_json(name, source, allow_remote_code)


def check_name(name: str, *, allow_remote_code: bool = False) -> None:
    """Refuse a file of a model by its name, before there are bytes of it.

    Raises:
        UnsafeWeightsError: By its name it is a pickle or Python code.
    """
    suffix = _suffix(name)
    if suffix in _PICKLE_SUFFIXES:
        raise _pickle_refused(name, f"files that end in {suffix} hold pickles")
    if suffix in _CODE_SUFFIXES and not allow_remote_code:
        raise _code_refused(name, "it is code, which a loader may import")


def check_checkpoint(files: Mapping[str, Path]) -> None:
    """Refuse a model whose files do not agree: two readers could load two different models.

    Args:
        files: Where each file of the model is, by its name inside the model. Files in different
            folders are different checkpoints.

    Raises:
        InvalidIndexError: A shard that an index names is missing or lacks a tensor that the index
            puts there, a shard holds a tensor that its index does not name, or a tensor is in
            two files.
        UnreadableWeightsError: A *.safetensors does not parse.
        UnsupportedWeightsError: There is a GGUF file among others.
    """
    _check_gguf_alone(files)
    holders = {
        name: read_header(source, name=name).tensors.keys()
        for name, source in sorted(files.items())
        if name.endswith(SHARD_SUFFIX)
    }
    _check_no_tensor_twice(holders)
    for name, source in sorted(files.items()):
        if name.endswith(SHARD_SUFFIX + INDEX_SUFFIX):
            _check_shards(name, decode_index(_json_bytes(name, source), name=name), holders)


def _suffix(name: str) -> str:
    return PurePosixPath(name.rstrip(" .").lower()).suffix


def _check_gguf(name: str, source: Path) -> None:
    from dis_derivations.conversion.gguf_checkpoint import read_checkpoint

    read_checkpoint(source, name=name)


def _check_gguf_alone(files: Collection[str]) -> None:
    for name in sorted(files):
        if name.lower().endswith(GGUF_SUFFIX) and len(files) > 1:
            raise UnsupportedWeightsError(
                f"{name} is one of {len(files)} files of weights",
                cause="a GGUF file holds a whole model, and is converted alone",
                hint="list one file in model.weights.files; parts are merged by: llama-gguf-split --merge",
            )


def _check_no_tensor_twice(holders: Mapping[str, Collection[str]]) -> None:
    seen: dict[tuple[PurePosixPath, str], str] = {}
    for name, tensors in holders.items():
        folder = PurePosixPath(name).parent
        for tensor in tensors:
            if other := seen.get((folder, tensor)):
                raise InvalidIndexError(
                    f"tensor {tensor!r} is both in {other} and in {name}",
                    cause="which of them a loader takes is not defined",
                    hint="list the files of one version of the model only",
                )
            seen[folder, tensor] = name


def _check_shards(
    name: str, weight_map: Mapping[str, str], holders: Mapping[str, Collection[str]]
) -> None:
    folder = PurePosixPath(name).parent
    for tensor, shard in weight_map.items():
        held = holders.get(str(folder / shard))
        if held is None:
            raise InvalidIndexError(
                f"{name} names the file {shard}, which is missing",
                cause=f"tensor {tensor!r} should be in it",
                hint=f"add {shard} to the files of the model",
            )
        if tensor not in held:
            raise InvalidIndexError(f"{name} puts tensor {tensor!r} into {shard}, which lacks it")
    for shard in sorted(set(weight_map.values())):
        for tensor in holders[str(folder / shard)]:
            if tensor not in weight_map:
                raise InvalidIndexError(f"{shard} holds tensor {tensor!r}, which {name} leaves out")


def _check_safetensors(name: str, source: Path, head: bytes, tail: bytes) -> None:
    try:
        read_header(source, name=name)
    except UnreadableWeightsError as error:
        # A valid header length can look like the start of a pickle, so the parser speaks first.
        if found := unsafe_content(head, tail):
            raise _pickle_refused(name, f"by its content it is {found}") from error
        raise


def _check_json(name: str, source: Path, allow_remote_code: bool) -> None:
    lower = name.lower()
    if lower.endswith(INDEX_SUFFIX):
        decode_index(_json_bytes(name, source), name=name)
    elif lower.endswith("config.json") and not allow_remote_code:
        document = strict_json.decode(_json_bytes(name, source), name=name)
        if _mentions_auto_map(document):
            raise _code_refused(name, "its auto_map has a loader import code")


def _mentions_auto_map(value: Any) -> bool:
    # Loaders follow auto_map in nested configurations too (CVE-2025-66448).
    if isinstance(value, dict):
        return "auto_map" in value or any(map(_mentions_auto_map, value.values()))
    return isinstance(value, list) and any(map(_mentions_auto_map, value))


def _ends(name: str, source: Path) -> tuple[bytes, bytes]:
    """Return the beginning and the end of a file."""
    with open_regular(source, name=name) as file:
        try:
            with reading(source):
                head = file.read(HEAD_BYTES)
                file.seek(max(os.fstat(file.fileno()).st_size - TAIL_BYTES, 0))
                return head, file.read(TAIL_BYTES)
        except OSError as error:
            raise unreadable(name, error) from error


def _json_bytes(name: str, source: Path) -> bytes:
    with open_regular(source, name=name) as file:
        try:
            with reading(source):
                data = file.read(MAX_JSON_BYTES + 1)
        except OSError as error:
            raise unreadable(name, error) from error
    if len(data) > MAX_JSON_BYTES:
        raise InvalidInputError(
            f"{name} is too long", cause=f"it has more than {MAX_JSON_BYTES >> 20} MiB"
        )
    return data


def _pickle_refused(name: str, why: str) -> UnsafeWeightsError:
    file = name if _SAFE_IN_A_COMMAND.fullmatch(name) else "FILE"
    return UnsafeWeightsError(
        f"{name} is refused",
        cause=f"{why}, and loading a pickle runs code that its author chose",
        hint=(
            "use the publisher's safetensors version, or convert it where nothing can be lost: "
            'python -c "import torch; from safetensors.torch import save_file; '
            "save_file({k: v.clone().contiguous() for k, v in torch.load("
            f"'{file}', map_location='cpu', weights_only=True).items()}}, 'model.safetensors')\""
        ),
    )


def _code_refused(name: str, why: str) -> UnsafeWeightsError:
    return UnsafeWeightsError(
        f"{name} is refused",
        cause=why,
        hint=(
            "use a model without code of its own, or pin it: vllm.engine_args.trust_remote_code: "
            "true with model.weights.source.remote_code_commit and remote_code_digest"
        ),
    )
