"""Why two runs may differ: everything upstream that is not the same, from most to least likely to change bits.

Evidence counts before declarations. Where the objects that a manifest field leads to are the same, or the engine
reports the same settings, a change of the field had no effect and is listed as provenance.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dis_derivations.comparison.causes.compared_runs import Runs
from dis_derivations.comparison.causes.effects import effect_of
from dis_derivations.comparison.causes.evidence import (
    EVIDENCE,
    PARTS,
    locked_files,
    object_change,
    rendered_diff,
    template_diff,
)
from dis_derivations.comparison.causes.json_changes import Change, json_changes
from dis_derivations.comparison.causes.manifest_changes import (
    CAUSE_KINDS,
    CauseKind,
    ManifestChange,
    ProvenanceKind,
)
from dis_derivations.runs.bundle_documents import Bundle
from dis_derivations.runs.bundle_reader import ObjectFiles

if TYPE_CHECKING:
    from dis_derivations.comparison.causes.package_changes import PackageChanges
    from dis_derivations.comparison.causes.text_changes import TextDiff

_SUBJECTS: Mapping[str, str] = {
    "weights": "the weights differ",
    "config": "the model's configuration differs",
    "tokenizer": "the tokenizer differs",
    "chat_template": "the chat template differs",
    "requests": "the requests differ",
    "engine": "the engine or its settings differ",
    "batching": "the batching differs, and it counts for this engine or this capture",
    "software": "the software stack differs",
    "closure": "the closures differ in something that is not at hand to be looked at",
    "platform": "the platform differs",
    "capture": "what was captured differs",
    "description": "the runs are described differently",
    "source": "the same files were said to come from elsewhere",
    "rules": "the rules of comparison differ",
    "policy": "settings differ that only allow, limit or record",
    "extension": "notes of the manifests' authors differ (x_…)",
    "other": "the documents differ in form",
    "without_effect": "settings differ that reached nothing the runs are made of",
}


@dataclass(frozen=True)
class Cause:
    """One reason.

    Attributes:
        kind: What it is about.
        statement: The same in a sentence.
        changes: Old and new, most telling first.
        effect: What is known of its effect on bits; empty for what has none.
    """

    kind: str
    statement: str
    changes: tuple[Change, ...]
    effect: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the cause as the reports hold it."""
        return {
            "kind": self.kind,
            "statement": self.statement,
            "effect": self.effect,
            "changes": [change.to_json() for change in self.changes],
        }


@dataclass(frozen=True, eq=False, repr=False)
class Upstream:
    """What differs upstream of two runs' results.

    Attributes:
        causes: What can change bits, the most likely first.
        provenance: What cannot.
        manifest: Every manifest field that differs, with its kind.
        texts: The chat template and the first rendered prompt that differs, as differences of texts.
        packages: The packages of the images; None where no layer differs, or the images are not at hand.
    """

    causes: tuple[Cause, ...]
    provenance: tuple[Cause, ...]
    manifest: tuple[ManifestChange, ...]
    texts: "tuple[TextDiff, ...]" = ()
    packages: "PackageChanges | None" = None

    def has(self, kind: CauseKind) -> bool:
        """Return whether there is a cause of a kind."""
        return any(cause.kind == kind for cause in self.causes)


def upstream_of(
    a: Bundle, b: Bundle, store: ObjectFiles | None, *, packages: bool = True
) -> Upstream:
    """Return everything upstream that two bundles do not share.

    Args:
        a: One bundle.
        b: The other.
        store: Where the objects that they name may be; without it, what the bundles hold must do.
        packages: Whether layers of images that differ are read for the packages in them, which may take minutes.
    """
    runs = Runs.of(a, b, store, packages=packages)
    found = {kind: EVIDENCE[kind](runs) for kind in CAUSE_KINDS}
    if (
        not runs.same_input("closure")
        and not _is_explained(runs)
        and not any(found[kind] for kind in (*PARTS, "engine", "software"))
    ):
        found["closure"] = (object_change(runs, "closure"),)
    causes = tuple(_cause(runs, kind, found[kind]) for kind in CAUSE_KINDS if found[kind])
    kinds = {cause.kind for cause in causes}
    provenance = _provenance(runs, kinds)
    of_images = None if runs.image is None else runs.image.packages
    return Upstream(causes, provenance, runs.declared, tuple(_texts(runs)), of_images)


def _cause(runs: Runs, kind: CauseKind, evidence: tuple[Change, ...]) -> Cause:
    changes = (*evidence, *_beside(evidence, runs.declared_of(kind)))
    effect = effect_of(kind, changes)
    if kind == "software" and runs.image is not None and runs.image.packages is not None:
        effect = "; ".join(filter(None, (effect, runs.image.packages.effect)))
    return Cause(kind, _statement(runs, kind), changes, effect)


def _texts(runs: Runs) -> "Iterator[TextDiff]":
    template = template_diff(runs)
    if template is not None:
        yield template
    prompt = rendered_diff(runs)
    if prompt is not None:
        yield prompt


def _is_explained(runs: Runs) -> bool:
    """Whether all that is in the closures is at hand, and they differ in the files of the same weights."""
    at_hand = runs.closure_a is not None and runs.closure_b is not None
    return at_hand and runs.same_weights and not runs.same_input("weights")


def _statement(runs: Runs, kind: str) -> str:
    known = runs.weights if kind == "weights" else None
    return _SUBJECTS[kind] if known is None else known.statement


def _provenance(runs: Runs, causes: set[str]) -> tuple[Cause, ...]:
    """Group what cannot have changed a bit: harmless fields, and fields whose effect is shown to be none."""
    groups: dict[str, list[Change]] = {}
    harmless: tuple[ProvenanceKind, ...] = (
        "description", "source", "rules", "policy", "extension", "other",
    )  # fmt: skip
    for each in runs.declared:
        if each.kind in harmless:
            groups.setdefault(each.kind, []).append(each.change)
        elif each.kind not in causes:
            groups.setdefault("without_effect", []).append(each.change)
    resolved = json_changes(
        "lock", runs.a.lock.get("sources", {}), runs.b.lock.get("sources", {}), "/sources"
    )
    if resolved:
        groups.setdefault("source", []).extend(resolved)
    order = (*harmless, "without_effect")
    moved = _moved_weights(runs)
    return moved + tuple(
        Cause(kind, _SUBJECTS[kind], tuple(groups[kind])) for kind in order if kind in groups
    )


def _moved_weights(runs: Runs) -> tuple[Cause, ...]:
    """Return the same weights in other files: they cannot have changed a bit."""
    if runs.same_input("weights") or runs.weights is None or not runs.weights.same:
        return ()
    changes = locked_files(runs, PARTS["weights"]) or (object_change(runs, "weights"),)
    return (Cause("weights", runs.weights.statement, changes),)


def _beside(evidence: Sequence[Change], declared: Sequence[Change]) -> tuple[Change, ...]:
    return tuple(change for change in declared if change not in evidence)
