"""All that reads bytes from outside, by name: what the fuzzers call, and what must hold of each reader."""

import atexit
import functools
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import click

import evil_compression
import evil_documents
import run_documents
import trust_seeds
from bundles import Run
from dis_command import amounts, config_files
from dis_command.terminal import one_line, printable
from dis_derivations.artifacts import safetensors_header as weights_header
from dis_derivations.artifacts.gguf_header import decode_gguf_header
from dis_derivations.artifacts.pickle_content import HEAD_BYTES, TAIL_BYTES, unsafe_content
from dis_derivations.artifacts.shard_index import decode_index
from dis_derivations.artifacts.weights_check import check_weight_file
from dis_derivations.engines.reference.families import parse_configuration
from dis_derivations.graph.derivation import Derivation
from dis_derivations.images.contents.image_packages import ImageLayer, package_differences
from dis_derivations.images.contents.layer_stream import Allowance, UnreadableError
from dis_derivations.images.contents.package_lists import packages_in
from dis_derivations.lock.document import Lock
from dis_derivations.manifest.loading import load_manifest
from dis_derivations.manifest.overrides import apply_override, parse_override
from dis_derivations.runs import left_out
from dis_derivations.runs.archive_reader import unpack
from dis_derivations.runs.bundle_documents import load_bundle
from dis_derivations.runs.bundle_reader import DirectoryBundle
from dis_derivations.runs.inspection import describe
from dis_derivations.runs.reference import Resolved, resolve
from dis_derivations.tokenization.chat_template import ChatTemplate
from dis_derivations.tokenization.conversation import Message
from dis_derivations.tokenization.dataset import read_prompts
from dis_derivations.tokenization.requests_document import parse_requests
from dis_derivations.tokenization.tokenizer_files import (
    load_tokenizer,
    special_tokens,
    template_source,
)
from dis_derivations.trust import statement
from dis_derivations.trust.attestations import judge_image, verify_attestation
from dis_derivations.trust.claim import Claim
from dis_derivations.trust.claims_file import decode_claims, encode_claims
from dis_derivations.trust.policy import TrustPolicy, accept_claim
from dis_derivations.trust.private_key import PrivateKey
from dis_derivations.trust.public_key import PublicKey
from dis_derivations.trust.signed_document import SignedDocument
from dis_derivations.trust.trust_settings import (
    read_fingerprints,
    read_identities,
    read_trusted_keys,
)
from dis_derivations.trust.trusted_root import TrustedRoot
from dis_store import (
    Realisation,
    Root,
    Store,
    canonical_json,
    derivations,
    lock_holder,
    strict_json,
)
from dis_store.archives.closure_archive import Header, decode_header
from dis_store.archives.closure_import import plan_import
from dis_store.digest import Digest, Sha256
from dis_store.errors import InvalidInputError
from dis_store.integrity.verification_round import read_round
from dis_store.layout import open_layout
from dis_store.path_rules import check_path
from dis_store.result_links import survey_links
from dis_store.roots import check_name
from dis_store.tensors.safetensors_header import read_from
from dis_store.tensors.tensor_scan import TensorScan
from dis_store.tree import Tree
from images import Member, distribution, dpkg_status, layer_of
from manifest_documents import smallest_manifest
from parser_seeds import (
    CONFIG,
    DATED,
    DERIVATION,
    GGUF,
    HOLDER,
    INDEX,
    LEFT_OUT,
    LOCK,
    OBJECT,
    REALISATION,
    REQUESTS,
    RESULT_LINK,
    ROOT,
    SAFETENSORS,
    VERIFICATION,
    WISHES,
)
from rpm_databases import rpm_database, rpm_header
from word_tokenizer import TEMPLATE, tokenizer_bytes


@dataclass(frozen=True)
class Parser:
    """Something that reads bytes from outside.

    Attributes:
        read: Raises `DisError` for what it refuses, and nothing else.
        seeds: Bytes that it accepts.
        write: The bytes of what was read, where there is one form only: they must be those that were read.
        json: Whether it reads one JSON document.
        slow: Whether one reading takes so long that few are tried.
    """

    read: Callable[[bytes], Any]
    seeds: tuple[bytes, ...]
    write: Callable[[Any], bytes] | None = None
    json: bool = False
    slow: bool = False


@functools.cache
def _scratch() -> Path:
    """Return a directory of this process, which is removed when it ends."""
    directory = Path(tempfile.mkdtemp(prefix="dis-parsers-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@functools.cache
def _store() -> Store:
    """Return a store with one object, of which there is a root."""
    store = Store.open(_scratch() / "store")
    atexit.register(store.close)
    with store.new_tree() as tree:
        tree.write_bytes("text", b"text")
        store.set_root("first", Root(tree.register()))
    return store


def _file(data: bytes, name: str) -> Path:
    path = _scratch() / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def _text(data: bytes) -> str:
    """Return bytes as an argument of a command is seen."""
    return data.decode("utf-8", "surrogateescape")


def _argument(read: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda data: read(_text(data))


def _usage(read: Callable[..., Any]) -> Callable[[bytes], Any]:
    """Return the reader of an option, whose refusal is an error of the command line."""

    def reading(data: bytes) -> Any:
        command = click.Command("x")
        try:
            return read(click.Context(command), click.Option(["--x"]), _text(data))
        except click.UsageError as error:
            raise InvalidInputError(error.format_message()) from error

    return reading


def _manifest(data: bytes) -> Any:
    path = _file(data, "manifest.json")
    return load_manifest(path), describe(_store(), Resolved(str(path), "manifest", path=path))


def _override(data: bytes) -> Any:
    return apply_override(smallest_manifest(), parse_override(_text(data)))


def _archive(suffix: str) -> Callable[[bytes], Any]:
    def reading(data: bytes) -> Any:
        with tempfile.TemporaryDirectory(dir=_scratch()) as directory:
            return unpack(_file(data, f"run{suffix}"), Path(directory))

    return reading


def _bundle(document: str) -> Callable[[bytes], Any]:
    """Return the reader of a run directory in which one document is another."""

    def reading(data: bytes) -> Any:
        directory = _scratch() / "run"
        directory.mkdir(exist_ok=True)
        for name, content in {**_RUN, document: data}.items():
            (directory / name).write_bytes(content)
        return load_bundle(DirectoryBundle(directory))

    return reading


def _run_file(name: str) -> Callable[[bytes], Any]:
    """Return the reader of a run in which one file is another."""
    return lambda data: run_documents.compared(_scratch(), {name: data})


def _settings(*, project: bool) -> Callable[[bytes], Any]:
    return lambda data: config_files.read_config(_file(data, "config.toml"), project=project)


def _format(data: bytes) -> Any:
    top = _scratch() / "format"
    top.mkdir(exist_ok=True)
    (top / "format.json").write_bytes(data)
    return open_layout(top, create=False, touch=False)


def _result_link(data: bytes) -> Any:
    layout = _store()._foundation.layout
    record = layout.result_links / "x.json"
    record.write_bytes(data)
    try:
        _, damaged = survey_links(layout)
    finally:
        record.unlink()
    for error in damaged.values():
        raise error


def _verification(data: bytes) -> Any:
    store = _store()
    (store.path / "verification.json").write_bytes(data)
    return read_round(store._foundation)


def _lock_file(data: bytes) -> str:
    with _file(data, "lock").open("rb") as stream:
        return str(lock_holder.read_living(stream.fileno()))


def _scan(data: bytes) -> Any:
    scan = TensorScan()
    scan.update(data)
    return scan.finish()


def _template(data: bytes) -> Any:
    compiled = ChatTemplate.compile(
        data.decode("utf-8", "replace"),
        special_tokens={"bos_token": "<s>"},
        pinned_date="2026-01-02",
    )
    return compiled.render((Message("user", "hello"),))


def _tokenizer_config(data: bytes) -> Any:
    files = {"tokenizer_config.json": data, "special_tokens_map.json": data}
    return special_tokens(files), template_source(files, None)


def _weighed(data: bytes) -> Any:
    """Weigh a document for a claim, which refuses nothing; it is parsed as well, so that refusals are seen."""
    keys = (trust_seeds.KEY,)
    decision = accept_claim(trust_seeds.SAID, [data], TrustPolicy(), keys, now=trust_seeds.NOW)
    return decision, SignedDocument.decode(data)


def _attested(data: bytes) -> Any:
    judge_image([data], trust_seeds.IMAGE, trust_seeds.IMAGES)
    return verify_attestation(data, trust_seeds.IMAGE, trust_seeds.IMAGES)


def _weights(name: str) -> Callable[[bytes], Any]:
    return lambda data: check_weight_file(name, _file(data, "weights"))


def _layer(packing: str) -> Callable[[bytes], Any]:
    """Return a comparison of two images of one layer each, one of which is the bytes."""

    def reading(data: bytes) -> Any:
        layer = ImageLayer("it", _file(data, "layer"), packing)
        return package_differences([], [layer], Allowance())

    return reading


def _package_list(path: str) -> Callable[[bytes], Any]:
    def reading(data: bytes) -> Any:
        try:
            return list(packages_in(path, data, Allowance()))
        except UnreadableError as error:
            raise InvalidInputError(str(error)) from error

    return reading


def _prompts(kind: str) -> Callable[[bytes], Any]:
    return lambda data: read_prompts(data, dataset_format=kind, count=1)


_RUN = Run().files()
_GOOD_TAR = evil_documents.whole(
    "run",
    evil_documents.header_for("run", evil_documents.GOOD_MANIFEST),
    evil_documents.GOOD_MANIFEST,
).data
_GOOD_CLOSURES = evil_documents.whole(
    "closures",
    evil_documents.header_for("closures", evil_documents.GOOD_MANIFEST),
    evil_documents.GOOD_MANIFEST,
).data
_TREES = (
    evil_documents.GOOD_MANIFEST,
    b'{"entries":[{"object":"%s","path":"a/b","subpath":"c"}],"format":1,"portable_names":false,"type":"tree"}'
    % (b"a" * 64),
    b'{"entries":[{"blake3":"%s","executable":true,"path":"x","size":1}],"format":1,"type":"tree"}'
    % (b"b" * 64),
)
_HEADER = evil_documents.header_for("closures", evil_documents.GOOD_MANIFEST)
_SETTINGS = b'jobs = 3\nwait = 1.5\ncolor = "never"\nprogress = "plain"\n'

PARSERS: Mapping[str, Parser] = {
    "strict JSON": Parser(
        lambda data: strict_json.decode(data, name="it"), (b'{"a":[1,-2.5e3,"\\u00e9\\n",null,true]}',), json=True
    ),
    "tree manifest": Parser(Tree.decode, _TREES, Tree.encode, json=True),
    "root": Parser(Root.decode, (ROOT, WISHES), Root.encode, json=True),
    "what was left out of a run": Parser(left_out.read_document, (LEFT_OUT,), json=True),
    "result link": Parser(_result_link, (RESULT_LINK,), json=True),
    "realisation": Parser(Realisation.decode, (REALISATION,), Realisation.encode, json=True),
    "derivation": Parser(Derivation.decode, (DERIVATION,), Derivation.encode, json=True),
    "stored derivation": Parser(derivations.check, (DERIVATION,), canonical_json.encode, json=True),
    "lock": Parser(lambda data: Lock.decode(data, name="it"), (LOCK,), json=True),
    "format of a store": Parser(_format, (b'{"format":1,"type":"store"}\n',), json=True),
    "note of a verification": Parser(_verification, (VERIFICATION,)),
    "who holds a lock": Parser(_lock_file, (HOLDER,)),
    "header of closures": Parser(
        decode_header, (_HEADER,), Header.encode, json=True
    ),
    "archive of closures": Parser(
        lambda data: plan_import(_store(), BytesIO(data)), (_GOOD_CLOSURES,), slow=True
    ),
    "archive of a run": Parser(_archive(".tar"), (_GOOD_TAR,), slow=True),
    "archive of a run, gzip": Parser(
        _archive(".tar.gz"), (evil_compression.gzipped(_GOOD_TAR),), slow=True
    ),
    "archive of a run, zstd": Parser(
        _archive(".tar.zst"), (evil_compression.zstd(_GOOD_TAR),), slow=True
    ),
    **{
        f"{name} of a run": Parser(_bundle(name), (_RUN[name],), json=True, slow=True)
        for name in sorted(_RUN)
    },
    "documents of a run together": Parser(
        run_documents.all_documents(_scratch), (run_documents.SEED,), json=True, slow=True
    ),
    "logits of a run": Parser(
        _run_file("logits.safetensors"), (run_documents.FILES["logits.safetensors"],), slow=True
    ),
    "trace of a run": Parser(
        _run_file("engine_trace.jsonl"), (run_documents.FILES["engine_trace.jsonl"],), slow=True
    ),
    "header of safetensors": Parser(
        lambda data: weights_header.decode_header(data, data_size=6, name="it"), (SAFETENSORS[8:-6],), json=True
    ),
    "safetensors": Parser(
        lambda data: read_from(BytesIO(data), len(data), name="it"), (SAFETENSORS,)
    ),
    "tensors of any file": Parser(_scan, (SAFETENSORS,)),
    "header of GGUF": Parser(
        lambda data: decode_gguf_header(data, size=len(data), name="it"), (GGUF,)
    ),
    "index of shards": Parser(lambda data: decode_index(data, name="it"), (INDEX,), json=True),
    "config.json": Parser(
        lambda data: parse_configuration(strict_json.decode(data, name="it")), (CONFIG,), json=True
    ),
    "weight file": Parser(_weights("model.safetensors"), (SAFETENSORS,), slow=True),
    "other file of a model": Parser(_weights("notes.txt"), (b"notes",), slow=True),
    "JSON file of a model": Parser(_weights("config.json"), (CONFIG,), json=True, slow=True),
    "pickle": Parser(
        lambda data: unsafe_content(data[:HEAD_BYTES], data[-TAIL_BYTES:]),
        (b"\x80\x04K\x01.", b"cos\nsystem\n(S'id'\ntR.", b"(lp0\nI1\na."),
    ),
    "tokenizer.json": Parser(
        lambda data: load_tokenizer({"tokenizer.json": data}), (tokenizer_bytes(),), slow=True
    ),
    "tokenizer_config.json": Parser(
        _tokenizer_config,
        (
            b'{"bos_token":{"content":"<s>"},"eos_token":"</s>","chat_template":"x"}',
            b'{"chat_template":[{"name":"default","template":"x"}],"additional_special_tokens":["a"]}',
        ),
        json=True,
    ),
    "chat template": Parser(_template, (TEMPLATE.encode(), DATED), slow=True),
    "dataset of conversations": Parser(
        _prompts("conversations"), (b'{"conversations":[[{"role":"user","content":"hi"}]]}',), json=True
    ),
    "dataset of JSON lines": Parser(
        _prompts("jsonl"), (b'{"prompt":"hi"}\n{"messages":[{"role":"user","content":"hi"}]}\n',)
    ),
    "dataset of texts": Parser(_prompts("text"), (b"one\n\ntwo\r\n",)),
    "requests": Parser(parse_requests, (REQUESTS,), json=True),
    "manifest": Parser(_manifest, (json.dumps(smallest_manifest()).encode(),), json=True, slow=True),
    "override": Parser(
        _override, (b"inference.requests.0.id=x", b'/runtime/env/A.B="1"', b"capture={}")
    ),
    "REF": Parser(
        _argument(lambda text: resolve(_store(), text)), (b"first", OBJECT.encode(), OBJECT[:8].encode())
    ),
    "name of a root": Parser(_argument(check_name), (b"first", "é".encode())),
    "path in an object": Parser(_argument(check_path), (b"a/b/c.txt", "\u4e2d/\u6587".encode())),
    "digest": Parser(_argument(Digest), (b"a" * 64,), lambda found: str(found).encode()),
    "SHA-256": Parser(
        _argument(Sha256), (b"sha256:" + b"a" * 64,), lambda found: str(found).encode()
    ),
    "settings of the user": Parser(_settings(project=False), (_SETTINGS + b'store = "/x"\n',)),
    "settings of a project": Parser(_settings(project=True), (_SETTINGS,)),
    "length of time": Parser(_usage(amounts.duration), (b"12h", b"30d")),
    "number of bytes": Parser(_usage(amounts.byte_count), (b"10G", b"500MiB")),
    "signed document": Parser(SignedDocument.decode, (trust_seeds.BUNDLE, trust_seeds.ENVELOPE), json=True),
    "file of claims": Parser(
        lambda data: decode_claims(data, name="it"), (trust_seeds.BUNDLE + b"\n",),
    ),
    "lines of a file of claims": Parser(
        lambda data: [SignedDocument.decode(line) for line in decode_claims(encode_claims([data]), name="it")],
        (trust_seeds.BUNDLE,),
    ),
    "claim": Parser(Claim.decode, (trust_seeds.CLAIM,), Claim.encode, json=True),
    "in-toto statement": Parser(
        lambda data: statement.decode(data, name="it", old=True), (trust_seeds.CLAIM,), json=True
    ),
    "claim that is weighed": Parser(_weighed, (trust_seeds.BUNDLE,), json=True),
    "attestation by a key": Parser(_attested, (trust_seeds.ATTESTATION,), json=True),
    "attestation by a certificate": Parser(
        _attested, (trust_seeds.CERTIFIED,), json=True, slow=True
    ),
    "trusted root": Parser(TrustedRoot.decode, (trust_seeds.ROOT,), json=True, slow=True),
    "public key": Parser(PublicKey.from_pem, (trust_seeds.PUBLIC,)),
    "private key": Parser(
        lambda data: PrivateKey.from_pem(data, name="it", ask=lambda: b"x"), (trust_seeds.PRIVATE,)
    ),
    "trusted keys of settings": Parser(
        lambda data: read_trusted_keys(data.decode("utf-8", "surrogateescape"), "it"), (trust_seeds.KEYS,), json=True
    ),
    "revoked keys of settings": Parser(
        lambda data: read_fingerprints(data.decode("utf-8", "surrogateescape"), "it"), (trust_seeds.REVOKED,), json=True
    ),
    "trusted identities of settings": Parser(
        lambda data: read_identities(data.decode("utf-8", "surrogateescape"), "it", Path("/x")),
        (trust_seeds.IDENTITIES,), json=True,
    ),
    "layer of an image": Parser(
        _layer("none"),
        (
            layer_of(
                [distribution("torch", "2.10.0"), Member("a/.wh.b"), Member("var/lib/dpkg/status", dpkg_status(a="1"))]
            ),
        ),
    ),
    "layer of an image, gzip": Parser(
        _layer("gzip"), (evil_compression.gzipped(layer_of([distribution("torch", "2.10.0")])),)
    ),
    "layer of an image, zstd": Parser(
        _layer("zstd"), (evil_compression.zstd(layer_of([distribution("torch", "2.10.0")])),)
    ),
    "database of RPM": Parser(
        _package_list("var/lib/rpm/rpmdb.sqlite"), (rpm_database(rpm_header(name="a", version="1", release="1")),)
    ),
    "text for a terminal": Parser(
        _argument(lambda text: (printable(text), one_line(text))), (b"a\x1b[2J\n",)
    ),
}  # fmt: skip
"""Every reader, by name."""
