"""Good documents for the readers that are tried: small, and made by what writes them."""

import json
import struct

from builds import build_of
from checkpoints import CheckpointShape
from dis_derivations.graph.derivation import Derivation, OutputReference
from dis_derivations.lock.document import Lock, LockedFile
from dis_derivations.runs import left_out
from dis_store import Retention, Root, canonical_json
from dis_store.digest import Digest, Sha256
from dis_store.tree import FileEntry, Tree
from safetensors_bytes import safetensors_bytes

A, B = Digest.of(b"a"), Digest.of(b"b")

ROOT = Root(
    A, derivation=B, key=A, automatic=True, label="run", created_at="2026-01-01T00:00:00+00:00"
).encode()
WISHES = Root(A, automatic=True, retention=Retention(30, "m"), include=("tokens",)).encode()
LEFT_OUT = left_out.document(A, [left_out.LeftOut("logits.safetensors", 5, A, B, "x")])
RESULT_LINK = canonical_json.encode(
    {**json.loads(ROOT), "type": "result-link", "link": "/nowhere/result"}
)
REALISATION = build_of("key", {"out": A}, derivation=B).encode()
VERIFICATION = canonical_json.encode(
    {
        "type": "verification",
        "format": 1,
        "number": 1,
        "after": str(A),
        "objects": 2,
        "bytes": 3,
        "damaged": [str(B)],
    }
)
DERIVATION = Derivation(
    name="run",
    builder="generation",
    builder_version=1,
    inputs={"requests": OutputReference(A, "out")},
    args={"files": [{"path": "x", "size": 1}], "settings": {"n": 1, "x": 0.5}},
    platform="any",
    outputs=("log", "out"),
    compared=("out",),
).encode()
LOCK = Lock(
    manifest_id=Sha256.of(b"manifest"),
    generated_at="2026-01-01T00:00:00Z",
    artifacts=(
        LockedFile(
            "model.weight",
            "model.safetensors",
            5,
            Sha256.of(b"x"),
            False,
            "computed",
            {"type": "local"},
        ),
        LockedFile("model.config", "config.json", 5, Sha256.of(b"y"), False, "published", {}),
    ),
    sources={"model.weight": {"commit": "c" * 40}},
).encode()
INDEX = b'{"metadata":{"total_size":6},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}'
CONFIG = json.dumps(CheckpointShape().document()).encode()
SAFETENSORS = safetensors_bytes(
    {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
        "b": {"dtype": "F16", "shape": [1, 2], "data_offsets": [2, 6]},
    },
    b"abcdef",
)
REQUESTS = canonical_json.encode(
    {
        "format": 1,
        "requests": [
            {
                "id": "one",
                "prompt_token_ids": [1, 2],
                "prompt": "hi",
                "conversation": None,
                "sampling": {"temperature": 0.0, "top_p": 1.0, "top_k": None, "max_tokens": 4, "seed": None},
                "stop": {"sequences": ["x"], "token_ids": [3]},
            }
        ],
    }
)  # fmt: skip

DATED = (
    b"{{ strftime_now('%d %b %Y') }}{% for each in messages %}{{ each.content|trim }}{% endfor %}"
)
# Of one file, `text`, that holds its own name.
OBJECT = Tree((FileEntry("text", 4, Digest.of(b"text")),)).digest
HOLDER = b'{"pid":1,"host":"there","command":"dis gc","since":"2026-01-01T00:00:00+00:00"}'


def _text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


_GGUF_HEAD = b"".join(
    (
        b"GGUF" + struct.pack("<IQQ", 3, 1, 2),
        _text(b"general.architecture") + struct.pack("<I", 8) + _text(b"llama"),
        _text(b"x.list") + struct.pack("<IIQII", 9, 4, 2, 5, 6),
        _text(b"a.weight") + struct.pack("<IQIQ", 1, 8, 0, 0),
    )
)
# Values of a text and of a list, and one tensor of eight floats.
GGUF = _GGUF_HEAD + bytes(-len(_GGUF_HEAD) % 32) + bytes(32)
