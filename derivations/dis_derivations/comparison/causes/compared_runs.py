"""Two bundles with what is known beside them: the manifest fields that differ, their closures, their weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dis_derivations.comparison.causes.json_changes import Change
from dis_derivations.comparison.causes.manifest_changes import ManifestChange, manifest_changes
from dis_derivations.runs.bundle_documents import Bundle
from dis_derivations.runs.bundle_reader import ObjectFiles
from dis_store import strict_json
from dis_store.errors import IntegrityError

if TYPE_CHECKING:
    from dis_derivations.comparison.causes.image_changes import ImageChanges
    from dis_derivations.comparison.weights.changes import WeightChanges

CLOSURE_DOCUMENT = "closure.json"


@dataclass(frozen=True, eq=False, repr=False)
class Runs:
    """Two bundles with what is known beside them.

    Attributes:
        store: Where the objects that they name may be.
        declared: The manifest fields that differ.
        closure_a: A's `closure.json`; None where the store does not have it, and where both have the same closure.
        closure_b: B's.
        packages: Whether layers of images are read for the packages in them, which may take minutes.
    """

    a: Bundle
    b: Bundle
    store: ObjectFiles | None
    declared: tuple[ManifestChange, ...]
    closure_a: Mapping[str, Any] | None
    closure_b: Mapping[str, Any] | None
    packages: bool = True

    @classmethod
    def of(
        cls, a: Bundle, b: Bundle, store: ObjectFiles | None, *, packages: bool = True
    ) -> "Runs":
        """Gather what is known of two bundles."""
        closures = [each.document.inputs.get("closure") for each in (a, b)]
        # What is the same need not be looked at, and may be far away.
        same_closure = closures[0] == closures[1]
        return cls(
            a=a,
            b=b,
            store=store,
            declared=manifest_changes(a.manifest, b.manifest),
            closure_a=None if same_closure else _closure(a, store),
            closure_b=None if same_closure else _closure(b, store),
            packages=packages,
        )

    def same_input(self, name: str) -> bool:
        """Return whether both runs were made of the same object of a name."""
        return self.a.document.inputs.get(name) == self.b.document.inputs.get(name)

    @property
    def same_requests(self) -> bool:
        """Whether both runs answered the same requests."""
        return self.a.document.requests_digest == self.b.document.requests_digest

    @cached_property
    def weights(self) -> "WeightChanges | None":
        """Which tensors differ; None unless the store has tensors of both runs."""
        a, b = self.a.document.inputs.get("weights"), self.b.document.inputs.get("weights")
        store = self.store
        if store is None or a is None or b is None or not (store.is_valid(a) and store.is_valid(b)):
            return None
        from dis_derivations.comparison.weights.changes import weight_changes
        from dis_derivations.comparison.weights.weight_set import Weights

        try:
            left, right = Weights.of(store, a), Weights.of(store, b)
        except IntegrityError:
            # Damage of the weights is for `dis store verify`; what was computed with them can be compared all the same.
            return None
        return weight_changes(left, right) if left.tensors and right.tensors else None

    @property
    def same_weights(self) -> bool:
        """Whether both runs are known to have used the same tensors, whatever files they lie in."""
        return self.same_input("weights") or (self.weights is not None and self.weights.same)

    @cached_property
    def image(self) -> "ImageChanges | None":
        """What differs between the images of both runs; None where none does, or one is no image at hand."""
        name = "image"
        a, b = self.a.document.inputs.get(name), self.b.document.inputs.get(name)
        store = self.store
        if a == b or store is None or a is None or b is None:
            return None
        if not (store.is_valid(a) and store.is_valid(b)):
            return None
        from dis_derivations.comparison.causes.image_changes import image_changes

        return image_changes((store, store), a, b, packages=self.packages)

    def declared_of(self, kind: str) -> tuple[Change, ...]:
        """Return the manifest fields of a kind that differ."""
        return tuple(each.change for each in self.declared if each.kind == kind)


def _closure(bundle: Bundle, store: ObjectFiles | None) -> Mapping[str, Any] | None:
    """Return a run's `closure.json`; None where the store does not have it."""
    digest = bundle.document.inputs.get("closure")
    if store is None or digest is None or not store.is_valid(digest):
        return None
    document = strict_json.decode(store.read_bytes(digest, CLOSURE_DOCUMENT), name=CLOSURE_DOCUMENT)
    return document if isinstance(document, dict) else None
