"""Comparing two runs: are the results the same, where do they first part, and why."""

from dis_derivations.comparison.causes import Upstream, upstream_of
from dis_derivations.comparison.divergence import Divergence, describe_divergence
from dis_derivations.comparison.examination import Examination, examine
from dis_derivations.comparison.report import DiffReport, RunIdentity
from dis_derivations.comparison.token_text import token_text
from dis_derivations.runs.bundle_documents import Bundle, load_bundle
from dis_derivations.runs.bundle_reader import MEMBERS, BundleReader, ObjectFiles

MOCK_ENGINE = "mock"
MOCK_NOTE = "MOCK ENGINE: these tokens come from no model; nothing here is evidence about one"
_CHUNK_BYTES = 1 << 20


def diff_bundles(a: BundleReader, b: BundleReader, *, store: ObjectFiles | None) -> DiffReport:
    """Compare two bundles.

    Memory stays bounded however large the captures are. The report holds no path and no time: the same bundles give
    the same report.

    Args:
        a: One run.
        b: The other.
        store: Where objects that the bundles name may be: it turns token ids into text, changed weights into names of
            tensors, and changed requests into fields. None to do without.

    Raises:
        InvalidInputError: One is no bundle, or a directory whose files are malformed or contradict each other.
        IntegrityError: An object of the store contradicts itself.
    """
    left, right = load_bundle(a), load_bundle(b)
    found = examine(left, right)
    upstream = upstream_of(left, right, store)
    return DiffReport(
        a=RunIdentity.of(left),
        b=RunIdentity.of(right),
        examination=found,
        bundles_identical=_same_bundles(a, b),
        divergence=_first_divergence(found, store),
        upstream=upstream,
        notes=notes(found, upstream),
    )


def notes(found: Examination, upstream: Upstream) -> tuple[str, ...]:
    """Return what a reader of a comparison must not miss."""
    said = [MOCK_NOTE] if is_mock(found.a) or is_mock(found.b) else []
    said += [
        f"{label}: the digests of the lock were not verified; {bundle.document.unverified.statement}"
        for label, bundle in (("A", found.a), ("B", found.b))
        if bundle.document.unverified is not None
    ]
    kinds = [cause.kind.replace("_", " ") for cause in upstream.causes if cause.kind != "capture"]
    if found.same and kinds:
        said.append(f"same results although something upstream differs: {', '.join(kinds)}")
    if not found.same and not upstream.causes:
        said.append(
            "nothing recorded upstream differs: the computation itself did not repeat, or something unrecorded changed"
        )
    if not found.alignment.same_order:
        said.append("the requests are in different orders; sequences are matched by id")
    texts = sum(pair.same_output and pair.a.text != pair.b.text for pair in found.alignment.pairs)
    if texts:
        said.append(
            f"equal tokens decode to different text in {texts} of {len(found.alignment.pairs)} sequences"
        )
    return tuple(said)


def is_mock(bundle: Bundle) -> bool:
    """Return whether a run's engine computes nothing."""
    return bundle.engine_name == MOCK_ENGINE


def _first_divergence(found: Examination, store: ObjectFiles | None) -> Divergence | None:
    if not found.alignment.parted:
        return None
    texts = token_text(found.a, store), token_text(found.b, store)
    return describe_divergence(found.a, found.b, found.alignment.parted[0], *texts)


def _same_bundles(a: BundleReader, b: BundleReader) -> bool:
    """Compare digests where both sides have one, and otherwise the bytes of every member."""
    digest_a, digest_b = a.digest(), b.digest()
    if digest_a is not None and digest_b is not None:
        return digest_a == digest_b
    members = set(MEMBERS)
    names = members.intersection(a.names())
    return names == members.intersection(b.names()) and all(
        _same_file(a, b, name) for name in sorted(names)
    )


def _same_file(a: BundleReader, b: BundleReader, name: str) -> bool:
    with a.open(name) as file_a, b.open(name) as file_b:
        while chunk := file_a.read(_CHUNK_BYTES):
            if chunk != file_b.read(_CHUNK_BYTES):
                return False
        return not file_b.read(1)
