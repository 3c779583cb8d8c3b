"""Comparing two objects of the store: file by file, and what is understood more closely; closures by tensor as well."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dis_derivations.builders.closure import IMAGE_DIRECTORY
from dis_derivations.comparison.causes.image_changes import (
    ImageChanges,
    image_changes,
    is_image,
)
from dis_derivations.comparison.causes.json_changes import ABSENT, Change, json_changes, keyed
from dis_derivations.comparison.causes.text_changes import TextDiff, text_diff
from dis_derivations.comparison.causes.tokenizer_changes import TOKENIZER_FILE, tokenizer_changes
from dis_derivations.comparison.documents.report import ChangeGroup, DocumentsReport
from dis_derivations.comparison.weights.changes import WeightChanges, weight_changes
from dis_derivations.comparison.weights.weight_set import Weights
from dis_derivations.images.image_layout import INDEX_FILE
from dis_store import strict_json
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError

if TYPE_CHECKING:
    from dis_derivations.runs.bundle_reader import ObjectFile, ObjectFiles

    Stores = tuple[ObjectFiles, ObjectFiles]

# Larger files are told apart by their digests alone.
_MAX_READ = 16 << 20
_MAX_CHANGES = 2000
_CLOSURE = "closure.json"
_WEIGHTS = ".safetensors"
# It says in which file each tensor lies, and no more.
_WEIGHTS_INDEX = ".safetensors.index.json"
_TEXTS = (".jinja", ".txt", ".md", ".jsonl", ".toml", ".cfg")
# The first that an object has says what it is.
_SUBJECTS: Mapping[str, str] = {
    _CLOSURE: "closures",
    TOKENIZER_FILE: "tokenizers",
    "environment.json": "environments",
    "requests.json": "requests",
    "dataset.json": "datasets",
    "dataset.jsonl": "datasets",
    "dataset.txt": "datasets",
    "config.json": "configurations",
    "index.json": "images",
    "chat_template.jinja": "chat templates",
}


def diff_objects(stores: "Stores", a: Digest, b: Digest) -> DocumentsReport:
    """Compare two objects.

    Args:
        stores: Where A and B are.
        a: One object.
        b: The other.

    Raises:
        InvalidInputError: They are of different kinds, so that a comparison would say nothing.
        IntegrityError: A file is damaged.
    """
    left, right = _files(stores[0], a), _files(stores[1], b)
    subject_a, subject_b = subject_of(left), subject_of(right)
    if subject_a != subject_b:
        raise InvalidInputError(
            f"{a[:12]} and {b[:12]} do not compare",
            cause=f"A is one of the {subject_a}, B one of the {subject_b}",
            hint="see what each of them is: dis inspect REF",
        )
    changed = sorted(
        path for path in {*left, *right} if _digest(left, path) != _digest(right, path)
    )
    weights, moved = _weights(stores, (a, b), changed)
    told = [path for path in changed if path not in moved]
    image = _image(stores, (a, b), (left, right))
    below = _image_place(left)
    # What the documents of an image say is told as what it means, not field by field.
    others = [path for path in told if image is None or not path.startswith(below)]
    fields = () if image is None else image.fields
    fields += tuple(
        change for path in others for change in _fields(stores, (a, b), path, left, right)
    )
    texts = tuple(text for path in others for text in _text(stores, (a, b), path, left, right))
    groups = (
        ChangeGroup("weights", matters=True, changes=weights[:_MAX_CHANGES]),
        ChangeGroup("fields", matters=True, changes=fields[:_MAX_CHANGES]),
        ChangeGroup("files", matters=True, changes=_changed(told, left, right)),
        ChangeGroup(
            "files_of_the_same_weights", matters=False, changes=_changed(moved, left, right)
        ),
    )
    return DocumentsReport(
        subject=subject_a,
        a=str(a),
        b=str(b),
        identical=a == b,
        groups=tuple(group for group in groups if group.changes),
        texts=texts,
        packages=None if image is None else image.packages,
    )


def is_closure(store: "ObjectFiles", digest: Digest) -> bool:
    """Tell whether an object is a closure, which holds weights and much beside them."""
    return any(file.path == _CLOSURE for file in store.files(digest))


def _image(
    stores: "Stores",
    digests: tuple[Digest, Digest],
    sides: tuple[Mapping[str, "ObjectFile"], Mapping[str, "ObjectFile"]],
) -> "ImageChanges | None":
    """Compare the images that two objects are, or that two closures have; None where they are the same or none."""
    left, right = sides
    below = _image_place(left)
    if not (is_image(left, below) and is_image(right, below)):
        return None
    index = f"{below}{INDEX_FILE}"
    if left[index].blake3 == right[index].blake3:
        return None
    return image_changes(stores, *digests, below)


def _image_place(files: Mapping[str, "ObjectFile"]) -> str:
    """Return what the paths of an image's files begin with in an object."""
    return f"{IMAGE_DIRECTORY}/" if _CLOSURE in files else ""


def _weights(
    stores: "Stores", digests: tuple[Digest, Digest], changed: Sequence[str]
) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Return the tensors that differ, and the changed files that only lay the same tensors out differently."""
    # Files that are the same need not be looked into, and may be far away.
    if not any(path.endswith(_WEIGHTS) for path in changed):
        return (), ()
    sides = [Weights.of(store, each) for store, each in zip(stores, digests, strict=True)]
    found: WeightChanges = weight_changes(*sides)
    if not found.same:
        return found.to_changes(), ()
    of_weights = {path for side in sides for path in side.files}
    return (), tuple(
        path for path in changed if path in of_weights or path.endswith(_WEIGHTS_INDEX)
    )


def _changed(
    paths: Sequence[str], left: Mapping[str, "ObjectFile"], right: Mapping[str, "ObjectFile"]
) -> tuple[Change, ...]:
    found = (Change("file", path, _digest(left, path), _digest(right, path)) for path in paths)
    return tuple(found)[:_MAX_CHANGES]


def subject_of(paths: Mapping[str, Any]) -> str:
    """Return what an object is, from the names of its files."""
    return next((subject for path, subject in _SUBJECTS.items() if path in paths), "objects")


def _files(store: "ObjectFiles", digest: Digest) -> dict[str, "ObjectFile"]:
    return {file.path: file for file in store.files(digest)}


def _digest(files: Mapping[str, "ObjectFile"], path: str) -> Any:
    return str(files[path].blake3) if path in files else ABSENT


def _read(store: "ObjectFiles", digest: Digest, file: "ObjectFile") -> bytes | None:
    if file.size > _MAX_READ:
        return None
    return store.read_bytes(digest, file.path)


def _pair(
    stores: "Stores",
    digests: tuple[Digest, Digest],
    path: str,
    sides: tuple[Mapping[str, "ObjectFile"], Mapping[str, "ObjectFile"]],
) -> tuple[bytes, bytes] | None:
    """Return both contents of a file that both objects have; None where one is missing or too large."""
    if any(path not in side for side in sides):
        return None
    old, new = (
        _read(store, each, side[path])
        for store, each, side in zip(stores, digests, sides, strict=True)
    )
    return None if old is None or new is None else (old, new)


def _fields(
    stores: "Stores",
    digests: tuple[Digest, Digest],
    path: str,
    left: Mapping[str, "ObjectFile"],
    right: Mapping[str, "ObjectFile"],
) -> Iterator[Change]:
    pair = _pair(stores, digests, path, (left, right)) if path.endswith(".json") else None
    if pair is None:
        return
    try:
        old, new = (strict_json.decode(data, name=path) for data in pair)
    except InvalidInputError:
        return
    if path.rpartition("/")[2] == TOKENIZER_FILE:
        yield from tokenizer_changes(old, new)
    else:
        yield from json_changes(path, keyed(old), keyed(new))


def _text(
    stores: "Stores",
    digests: tuple[Digest, Digest],
    path: str,
    left: Mapping[str, "ObjectFile"],
    right: Mapping[str, "ObjectFile"],
) -> Iterator[TextDiff]:
    pair = _pair(stores, digests, path, (left, right)) if path.endswith(_TEXTS) else None
    if pair is not None:
        yield text_diff(path, *(data.decode("utf-8", "replace") for data in pair))
