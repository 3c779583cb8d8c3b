"""What of a run is not in an archive or a directory of it, because `outputs.bundle_policy` or the command line says so.

The bundle in the store is always whole. Of what is left out, the archive or directory says size and digest.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dis_derivations.manifest.include_words import ALWAYS, CAPTURES, RUN_LOG_WORD
from dis_derivations.runs.bundle import ACTIVATIONS_FILE, LOGITS_FILE, TRACE_FILE
from dis_store import canonical_json, strict_json
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError
from dis_store.path_rules import check_path

LEFT_OUT_DOCUMENT = "left_out.json"
TYPE = "left-out"
FORMAT = 1
# The files that may be missing, by the word that has them there.
FILES: Mapping[str, str] = dict(
    zip(CAPTURES, (LOGITS_FILE, ACTIVATIONS_FILE, TRACE_FILE), strict=True)
)


@dataclass(frozen=True)
class LeftOut:
    """A file of a bundle that is not there.

    Attributes:
        path: Where the bundle shows it.
        size: Bytes.
        blake3: The digest of its content.
        object: The object that has it, in a store that has the run: as `subpath` of it.
        subpath: Where that object has it.
    """

    path: str
    size: int
    blake3: Digest
    object: Digest
    subpath: str

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a document."""
        return {**vars(self), "blake3": str(self.blake3), "object": str(self.object)}


def missing_files(include: Collection[str]) -> frozenset[str]:
    """Return the files that words leave out; none where there are no words."""
    if not include:
        return frozenset()
    return frozenset(file for word, file in FILES.items() if word not in include)


def has_run_log(include: Collection[str]) -> bool:
    """Return whether the log of the run goes into a directory of it."""
    return not include or RUN_LOG_WORD in include


def check_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return words as they were given.

    Raises:
        InvalidInputError: One is none of those that there are.
    """
    from difflib import get_close_matches

    known = (*ALWAYS, *CAPTURES, RUN_LOG_WORD)
    given = tuple(words)
    for word in given:
        if word not in known:
            close = get_close_matches(word, known, n=3)
            raise InvalidInputError(
                f"nothing of a run is called {word!r:.100}",
                cause=f"there are {', '.join(known)}",
                hint=f"did you mean {' or '.join(close)}?" if close else None,
            )
    return given


def document(bundle: Digest, entries: Iterable[LeftOut]) -> bytes:
    """Return the bytes of `left_out.json`."""
    return canonical_json.encode(
        {
            "type": TYPE,
            "format": FORMAT,
            "bundle": str(bundle),
            "files": [each.to_json() for each in entries],
        }
    )


def read_document(data: bytes) -> dict[str, LeftOut]:
    """Return the entries of a `left_out.json` by their paths.

    Raises:
        InvalidInputError: It is not what belongs there.
    """
    found = strict_json.decode(data, name=LEFT_OUT_DOCUMENT)
    try:
        entries = entries_of(found["files"])
        encoded = document(Digest(found["bundle"]), entries.values())
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{LEFT_OUT_DOCUMENT} is malformed", cause=str(error)) from error
    if encoded != data:
        cause = f"it is not what dis writes there in format {FORMAT}"
        raise InvalidInputError(f"{LEFT_OUT_DOCUMENT} is malformed", cause=cause)
    return entries


def entries_of(listed: Any) -> dict[str, LeftOut]:
    """Return entries by their paths.

    Raises:
        InvalidInputError: A digest is none, or a subpath is no path inside an object.
        KeyError, TypeError, ValueError: They are malformed in another way, or out of order.
    """
    if not isinstance(listed, list) or not listed:
        raise ValueError("its files are no list of some")
    found = [
        LeftOut(
            path=each["path"],
            size=each["size"],
            blake3=Digest(each["blake3"]),
            object=Digest(each["object"]),
            subpath=each["subpath"],
        )
        for each in listed
    ]
    paths = [each.path for each in found]
    if not set(paths) <= set(FILES.values()) or paths != sorted(set(paths)):
        raise ValueError("its paths are not those of captures, each once and in order")
    if any(type(each.size) is not int or each.size < 0 for each in found):
        raise ValueError("a size is none")
    if any(not isinstance(each.subpath, str) for each in found):
        raise ValueError("a subpath is no text")
    for each in found:
        # It is printed, and it may come from anywhere: what no object can have is no place in one.
        check_path(each.subpath, portable=False)
    return {each.path: each for each in found}
