"""What a comparison of two documents or objects says, as values."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dis_derivations.comparison.causes.json_changes import Change
from dis_derivations.comparison.causes.text_changes import TextDiff

if TYPE_CHECKING:
    from dis_derivations.comparison.causes.package_changes import PackageChanges

DOCUMENTS_DIFF_KIND = "vllm.deterministic_documents_diff"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ChangeGroup:
    """Changes of one kind.

    Attributes:
        kind: What they are about.
        matters: Whether they can change what a run computes.
        changes: In the order of their names.
    """

    kind: str
    matters: bool
    changes: tuple[Change, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the group as a JSON object."""
        return {
            "kind": self.kind,
            "matters": self.matters,
            "changes": [change.to_json() for change in self.changes],
        }


@dataclass(frozen=True)
class DocumentsReport:
    """The answer to `dis diff` for two things that are no runs and no weights.

    Attributes:
        subject: What both are: `manifests`, `locks`, `closures`, `tokenizers`, `datasets` or `objects`.
        a: How A is called: a digest or an id, never a path.
        b: How B is called.
        identical: Whether they are the same in every byte, or have one id.
        groups: What differs; first what matters.
        texts: Files of text that differ.
        packages: The packages of the images that both are or have; None where no layer of these differs.
    """

    subject: str
    a: str
    b: str
    identical: bool
    groups: tuple[ChangeGroup, ...]
    texts: tuple[TextDiff, ...] = ()
    packages: "PackageChanges | None" = None

    @property
    def same(self) -> bool:
        """Whether nothing differs that matters: exit code 0 of `dis diff`, else 1."""
        return not any(group.matters for group in self.groups) and not self.texts

    def answer(self, *, strict: bool) -> bool:
        """Return the verdict that makes the exit code; `strict` asks for the same bytes."""
        return self.same and (self.identical or not strict)

    def to_json(self) -> dict[str, Any]:
        """Return the whole report."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": DOCUMENTS_DIFF_KIND,
            "subject": self.subject,
            "a": self.a,
            "b": self.b,
            "same": self.same,
            "identical": self.identical,
            "groups": [group.to_json() for group in self.groups],
            "text_differences": [text.to_json() for text in self.texts],
            "image_packages": None if self.packages is None else self.packages.to_json(),
        }
