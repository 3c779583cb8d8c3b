"""What a comparison of two runs says, as values; `to_json` is the document of `dis diff --json`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dis_derivations.comparison.causes.upstream import Cause, Upstream
from dis_derivations.comparison.examination import Examination
from dis_derivations.runs.bundle_documents import Bundle
from dis_store.digest import Digest, Sha256

if TYPE_CHECKING:
    from dis_derivations.comparison.divergence import Divergence
    from dis_derivations.comparison.tensors.error_curve import ErrorCurve

DIFF_KIND = "vllm.deterministic_run_diff"
SCHEMA_VERSION = 1
# A report of more would be long; that they part is said of all.
MAX_DESCRIBED = 256


@dataclass(frozen=True)
class RunIdentity:
    """How a report names a run: never by a path or a time.

    Attributes:
        bundle: The bundle's digest; None for a directory of files.
        results: The digest of the results object that the bundle names.
        verified: Whether the run was held to the digests of its lock.
    """

    bundle: Digest | None
    run_id: Sha256
    manifest_id: Sha256
    lock_id: Sha256
    name: str
    engine: str
    results: Digest
    verified: bool

    @classmethod
    def of(cls, bundle: Bundle) -> "RunIdentity":
        """Return the identity of a loaded bundle."""
        document = bundle.document
        return cls(
            bundle=bundle.reader.digest(),
            run_id=document.run_id,
            manifest_id=document.manifest_id,
            lock_id=document.lock_id,
            name=document.name,
            engine=bundle.engine_name,
            results=document.results,
            verified=document.unverified is None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the identity as a JSON object."""
        return {
            "bundle": None if self.bundle is None else str(self.bundle),
            "run_id": str(self.run_id),
            "manifest_id": str(self.manifest_id),
            "lock_id": str(self.lock_id),
            "name": self.name,
            "engine": self.engine,
            "results": str(self.results),
            "artifact_digests_verified": self.verified,
        }


@dataclass(frozen=True, eq=False, repr=False)
class DiffReport:
    """The answer to `dis diff`.

    Attributes:
        a: Which run is A.
        b: Which run is B.
        examination: What was found, observable by observable.
        bundles_identical: Whether the bundles are the same, byte for byte (`--strict`).
        divergences: Where outputs part, sequence by sequence, in the order of A's requests; at most
            `MAX_DESCRIBED`, the earliest place among them.
        curves: How the logits part before the tokens do, sequence by sequence.
        upstream: Why.
        notes: What a reader must not miss.
    """

    a: RunIdentity
    b: RunIdentity
    examination: Examination
    bundles_identical: bool
    divergences: "tuple[Divergence, ...]"
    curves: "tuple[ErrorCurve, ...]"
    upstream: Upstream
    notes: tuple[str, ...]

    @property
    def divergence(self) -> "Divergence | None":
        """The earliest position at which outputs part; None where they never do."""
        if not self.divergences:
            return None
        from dis_derivations.comparison.divergence import earliest

        return earliest(self.divergences)

    @property
    def same(self) -> bool:
        """Whether the results are the same: exit code 0 of `dis diff`, else 1."""
        return self.examination.same

    @property
    def causes(self) -> tuple[Cause, ...]:
        """What can have changed bits, the most likely first."""
        return self.upstream.causes

    def answer(self, *, strict: bool) -> bool:
        """Return the verdict that makes the exit code; `strict` asks for the same bundles."""
        return self.same and (self.bundles_identical or not strict)

    def to_json(self) -> dict[str, Any]:
        """Return the whole report; equal reports give equal documents."""
        # A text needs none of it.
        from dis_derivations.comparison.report_json import (
            curve_json,
            divergence_json,
            sequences_json,
            tensors_json,
            trace_json,
        )

        found = self.examination
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": DIFF_KIND,
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "same": self.same,
            "bundles_identical": self.bundles_identical,
            "observables": dict(found.status),
            "sequences": sequences_json(found.alignment),
            "first_divergence": None
            if self.divergence is None
            else divergence_json(self.divergence),
            "divergences": [divergence_json(each) for each in self.divergences],
            "logit_error": [curve_json(curve) for curve in self.curves],
            **{name: tensors_json(comparison) for name, comparison in found.tensors.items()},
            "engine_trace": trace_json(found),
            "causes": [cause.to_json() for cause in self.upstream.causes],
            "provenance": [cause.to_json() for cause in self.upstream.provenance],
            "text_differences": [text.to_json() for text in self.upstream.texts],
            "image_packages": None
            if self.upstream.packages is None
            else self.upstream.packages.to_json(),
            "manifest_changes": [
                {**each.change.to_json(), "kind": each.kind} for each in self.upstream.manifest
            ],
            "notes": list(self.notes),
        }
