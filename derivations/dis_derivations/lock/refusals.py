"""What cannot be locked, item by item, with the true reason of each."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dis_derivations.artifacts.gguf_types import GGUF_SUFFIX
from dis_derivations.environments.request import package_faults
from dis_derivations.manifest.artifact_groups import WEIGHTS, ArtifactGroup, DeclaredFile
from dis_derivations.manifest.loading import LoadedManifest
from dis_derivations.manifest.text_forms import (
    declared_sha256,
    is_commit,
    is_unset,
    is_unset_revision,
)
from dis_derivations.sources.source import Problem, Reason, Resolving, Source, Unavailable
from dis_store.digest import Sha256
from dis_store.errors import InvalidInputError

# What another machine or a later version could do; every other reason is the manifest's to mend.
_NOT_THE_MANIFESTS = frozenset({"source_unavailable", "format_unavailable", "not_found"})
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_UNSET = "its digest is unset"
_PACKAGE_HINT = "leave such digests of packages out, because dis lock finds them"
_INVENTED = "its digest is invented: no file has it, it is the hash of the manifest's own metadata"


@dataclass(frozen=True)
class RefusedItem:
    """One thing that cannot be locked.

    Attributes:
        name: The artifact, such as `model.weight`.
        path: The file, or what else of the artifact it is about.
        reason: A word for programs.
        message: The reason in a sentence.
        field: The JSON Pointer of the field in the manifest.
        hint: What to do about this very item, where there is more to say than for all of its kind.
    """

    name: str
    path: str
    reason: Reason
    message: str
    field: str
    hint: str | None = None

    def as_json(self) -> dict[str, str]:
        """Return the item for `--json`."""
        return {
            "name": self.name,
            "path": self.path,
            "reason": self.reason,
            "message": self.message,
            "field": self.field,
        }


class LockRefusedError(InvalidInputError):
    """A manifest cannot be locked as it is, or its files cannot be taken as they are.

    Each line of the cause is one thing that is refused, and why. Nothing was written.

    Args:
        manifest: Which.
        items: What is wrong.
        verbs: What the manifest and what the items cannot be.

    Attributes:
        items: Everything that is refused; the message lists them all.
    """

    code = "E0211"

    def __init__(
        self, manifest: Path, items: tuple[RefusedItem, ...], verbs: tuple[str, str]
    ) -> None:
        count = "1 item" if len(items) == 1 else f"{len(items)} items"
        super().__init__(
            f"{manifest} cannot be {verbs[0]}, {count} cannot be {verbs[1]}",
            cause="\n".join(f"{item.name} {item.path}: {item.message}" for item in items),
            hint="\n".join(_hints(manifest, items)),
        )
        self.items = items


class LockUnavailableError(LockRefusedError):
    """A manifest cannot be locked, or its files cannot be taken, here or by this version; it need not be wrong."""

    code = "E0511"
    exit_code = 5


def refuse(
    manifest: Path,
    items: Iterable[RefusedItem],
    verbs: tuple[str, str] = ("locked", "pinned"),
) -> None:
    """Raise when there is anything to refuse, in the words of `verbs`.

    Raises:
        LockRefusedError: The manifest is at fault in at least one item.
        LockUnavailableError: Only this version or this machine is the reason of every item.
    """
    # A source that several artifacts share is at fault once.
    once: dict[tuple[str, str, str], RefusedItem] = {}
    for item in items:
        once.setdefault((item.field, item.reason, item.path), item)
    refused = tuple(once.values())
    if not refused:
        return
    elsewhere = all(item.reason in _NOT_THE_MANIFESTS for item in refused)
    raise (LockUnavailableError if elsewhere else LockRefusedError)(manifest, refused, verbs)


def group_refusals(
    group: ArtifactGroup,
    source: Source,
    files: tuple[DeclaredFile, ...],
    invented: Mapping[str, Sha256],
) -> Iterator[RefusedItem]:
    """Yield why files of a group cannot be locked, as far as it can be told before they are read."""
    revision = _revision(group, source)
    if revision is not None:
        yield revision
    declared = {file.field: _declared_problem(file, invented) for file in files}
    asks = isinstance(source, Resolving) and not (files and all(declared.values()))
    unavailable = source.available() if asks else None
    # What stands in the way of a whole repository is told once, and not for each of its files.
    if asks and revision is None and unavailable is not None:
        yield _repository_unavailable(group, unavailable)
    asked = not asks or (revision is None and unavailable is None)
    if not files and group.needed is not None and asked:
        yield _nothing_found(group, group.needed, source)
    refused = False
    for file in files:
        problem = declared[file.field] or (_file_problem(source, file) if asked else None)
        if problem is not None:
            refused = True
            yield _item(group, file.path, problem, file.field)
    together = None if refused or not asked else source.disagreement([file.path for file in files])
    if together is not None:
        yield _item(group, "*", together, group.source.field)


def _item(group: ArtifactGroup, path: str, problem: Problem, field: str) -> RefusedItem:
    return RefusedItem(group.name, path, problem.reason, problem.message, field, problem.hint)


def _nothing_found(group: ArtifactGroup, needed: str, source: Source) -> RefusedItem:
    field = group.source.field
    if (unavailable := source.available()) is not None:
        return RefusedItem(group.name, needed, "source_unavailable", unavailable.reason, field)
    message = f"no such file was found in {source.describe()}"
    pickles = [name for name in source.listing() if name.endswith(_PICKLES)]
    if group.name == WEIGHTS and pickles:
        message += f"; {pickles[0]} may be pickled weights, which dis does not load"
    ggufs = [name for name in source.listing() if name.lower().endswith(GGUF_SUFFIX)]
    hint: str | None = None
    if group.name == WEIGHTS and ggufs:
        message += f"; {ggufs[0]} is a GGUF file, which is taken when it is named"
        entries = json.dumps([{"path": ggufs[0]}], separators=(",", ":"))
        hint = f"name the file: --set {shlex.quote(f'model.weights.files={entries}')}"
    return RefusedItem(group.name, needed, "not_found", message, field, hint)


def _declared_problem(file: DeclaredFile, invented: Mapping[str, Sha256]) -> Problem | None:
    if file.field in invented:
        return Problem("digest_invented", _INVENTED)
    return Problem("digest_unset", _UNSET) if file.unset else None


def _file_problem(source: Source, file: DeclaredFile) -> Problem | None:
    if (unavailable := source.available()) is not None:
        unchecked = "" if file.sha256 is None else ", so its declared digest cannot be checked"
        return Problem("source_unavailable", f"{unavailable.reason}{unchecked}")
    return source.problem(file.path)


def _repository_unavailable(group: ArtifactGroup, unavailable: Unavailable) -> RefusedItem:
    return RefusedItem(
        group.name,
        group.source.repository or "",
        "source_unavailable",
        unavailable.reason,
        group.source.field,
        unavailable.hint,
    )


def _revision(group: ArtifactGroup, source: Source) -> RefusedItem | None:
    named = group.source
    path, field = named.repository or "", f"{named.field}/revision"
    if named.type == "oci" and named.location is None and is_unset_revision(named.revision):
        message = "it has neither a tag nor a digest"
        return RefusedItem(group.name, path, "revision_unset", message, field)
    if named.type != "huggingface" or is_commit(named.revision):
        return None
    if is_unset_revision(named.revision):
        return RefusedItem(group.name, path, "revision_unset", "its revision is unset", field)
    if isinstance(source, Resolving):
        return None
    message = (
        f"its revision {named.revision!r} is a branch or tag, which can move, and no commit; "
        "a directory does not tell which commit it has"
    )
    return RefusedItem(group.name, path, "revision_not_a_commit", message, field)


def other_refusals(loaded: LoadedManifest, invented: Mapping[str, Sha256]) -> Iterator[RefusedItem]:
    """Yield what a manifest declares and this version has no way to pin.

    That is Python packages that are no wheels, CUDA libraries, a model's own code, and prompts without a dataset.
    """
    yield from _packages(loaded, invented)
    yield from _cuda(loaded, invented)
    yield from _remote_code(loaded, invented)
    inference = loaded.manifest.inference
    if inference.n_prompts is not None and inference.dataset is None:
        yield RefusedItem(
            "inference.prompt_dataset",
            "dataset",
            "dataset_missing",
            f"n_prompts is {inference.n_prompts}, and inference.dataset names no file of prompts",
            "/inference/dataset",
        )


def _packages(loaded: LoadedManifest, invented: Mapping[str, Sha256]) -> Iterator[RefusedItem]:
    stack = loaded.manifest.software_stack
    for index, package in enumerate(stack.python.packages if stack.python else ()):
        field = f"/software_stack/python/packages/{index}/source/digest"
        declared = DeclaredFile(package.name, None, is_unset(package.source.digest), field)
        problem = _declared_problem(declared, invented)
        if problem is not None:
            name = f"python.package.{package.name}"
            yield RefusedItem(
                name, package.name, problem.reason, problem.message, field, _PACKAGE_HINT
            )
    for name, field, why in package_faults(stack.python) if stack.python else ():
        yield RefusedItem(f"python.package.{name}", name, "not_a_package", why, field)
    for index, _ in enumerate(stack.compiled_extensions):
        message = "compiled extensions cannot be pinned by this version"
        field = f"/software_stack/compiled_extensions/{index}"
        yield RefusedItem("compiled_extension", str(index), "source_unavailable", message, field)


def _cuda(loaded: LoadedManifest, invented: Mapping[str, Sha256]) -> Iterator[RefusedItem]:
    for name, library in loaded.manifest.cuda_stack.userspace.declared().items():
        field = f"/cuda_stack/userspace/{name}/digest"
        reason = _unfetchable(library.digest, field, invented, "CUDA libraries")
        yield RefusedItem(f"cuda.userspace.{name}", name, *reason, field)


def _remote_code(loaded: LoadedManifest, invented: Mapping[str, Sha256]) -> Iterator[RefusedItem]:
    source = loaded.manifest.model.weights.source
    if source.remote_code_digest is not None or source.remote_code_commit is not None:
        field = "/model/weights/source/remote_code_digest"
        reason = _unfetchable(source.remote_code_digest, field, invented, "a model's own code")
        yield RefusedItem("model.remote_code", source.repository or "", *reason, field)


def _unfetchable(
    digest: str | None, field: str, invented: Mapping[str, Sha256], what: str
) -> tuple[Reason, str]:
    if field in invented:
        return "digest_invented", _INVENTED
    if declared_sha256(digest) is None:
        return "digest_unset", _UNSET if is_unset(digest) else "it declares no digest"
    return (
        "source_unavailable",
        f"{what} cannot be fetched by this version, so the digest cannot be checked",
    )


def _hints(manifest: Path, items: tuple[RefusedItem, ...]) -> Iterator[str]:
    reasons = {item.reason for item in items}
    yield from dict.fromkeys(item.hint for item in items if item.hint is not None)
    names = {item.name.partition(".")[0] for item in items if item.reason != "dataset_missing"}
    if reasons & {"digest_unset", "digest_invented"} and "model" in names:
        replace = " --replace-existing" if "digest_invented" in reasons else ""
        yield (
            "leave such digests of the model's files out, because dis computes them; or fill them: "
            f"dis digest-bootstrap {shlex.quote(str(manifest))} --in-place{replace}"
        )
    if reasons & {"source_unavailable", "not_found"} and "model" in names:
        yield "say where the model's files are: --set model.weights.source.local_path=DIR"
    if names & {"python", "cuda", "compiled_extension"}:
        yield "drop packages and CUDA libraries that the engine does not need from the manifest"
    if "dataset_missing" in reasons:
        yield "name the file of prompts: --set inference.dataset.source=FILE"
    if "revision_unset" in reasons:
        yield "name a branch, a tag or a commit: --set model.weights.source.revision=main"
    if "revision_not_a_commit" in reasons:
        yield "name the commit: --set model.weights.source.revision=<40 hexadecimal digits>"
