"""Comparing two runs: are the results the same, where do they first part, and why.

What is there for runs that differ alone is imported where they do: of equal ones the answer comes at once.
"""

from typing import TYPE_CHECKING

from dis_derivations.comparison.causes.upstream import Upstream, upstream_of
from dis_derivations.comparison.examination import Examination, examine
from dis_derivations.comparison.report import MAX_DESCRIBED, DiffReport, RunIdentity
from dis_derivations.runs.bundle import EXPERIMENT, MOCK_ENGINE, SERVER
from dis_derivations.runs.bundle_documents import CAPTURE_FILES, Bundle, load_bundle
from dis_derivations.runs.bundle_reader import MEMBERS, BundleReader, ObjectFiles

if TYPE_CHECKING:
    from dis_derivations.comparison.divergence import Divergence
    from dis_derivations.comparison.tensors.error_curve import ErrorCurve

MOCK_NOTE = "MOCK ENGINE: these tokens come from no model; nothing here is evidence about one"
MAX_CURVES = 64
# So many sequences are followed for a page; one of more would be slow.
PAGE_CURVES = 8000
_CHUNK_BYTES = 1 << 20


def diff_bundles(
    a: BundleReader,
    b: BundleReader,
    *,
    store: ObjectFiles | None,
    curves: int = MAX_CURVES,
    packages: bool = True,
) -> DiffReport:
    """Compare two bundles.

    Memory stays bounded however large the captures are. The report holds no path and no time: the same bundles give
    the same report.

    Args:
        a: One run.
        b: The other.
        store: Where objects that the bundles name may be: it turns token ids into text, changed weights into names of
            tensors, and changed requests into fields. None to do without.
        curves: Of how many sequences the error of the logits is followed step by step, which reads them once more.
        packages: Whether layers of images that differ are read for the packages in them, which may take minutes.

    Raises:
        InvalidInputError: One is no bundle, or a directory whose files are malformed or contradict each other.
        IntegrityError: An object of the store contradicts itself.
    """
    left = load_bundle(a)
    right = load_bundle(b, beside=left)
    found = examine(left, right)
    upstream = upstream_of(left, right, store, packages=packages)
    return DiffReport(
        a=RunIdentity.of(left),
        b=RunIdentity.of(right),
        examination=found,
        bundles_identical=_same_bundles(found),
        divergences=_divergences(found, store),
        curves=_curves(found, curves),
        upstream=upstream,
        notes=notes(found, upstream),
    )


def notes(found: Examination, upstream: Upstream) -> tuple[str, ...]:
    """Return what a reader of a comparison must not miss."""
    said = [MOCK_NOTE] if is_mock(found.a) or is_mock(found.b) else []
    said += [
        f"{label}: {line}"
        for label, bundle in (("A", found.a), ("B", found.b))
        for line in (*server_departures(bundle), *experiment_notes(bundle))
    ]
    said += [
        f"{label}: the digests of the lock were not verified; {bundle.document.unverified.statement}"
        for label, bundle in (("A", found.a), ("B", found.b))
        if bundle.document.unverified is not None
    ]
    said += [
        f"{label}: {line}"
        for label, bundle in (("A", found.a), ("B", found.b))
        for line in left_out_notes(bundle.reader)
    ]
    kinds = [cause.kind.replace("_", " ") for cause in upstream.causes if cause.kind != "capture"]
    if found.same and kinds:
        said.append(f"same results although something upstream differs: {', '.join(kinds)}")
    if not found.same and not upstream.causes:
        said.append(_unexplained(found))
    if not found.alignment.same_order:
        said.append("the requests are in different orders; sequences are matched by id")
    texts = sum(pair.same_output and pair.a.text != pair.b.text for pair in found.alignment.pairs)
    if texts:
        said.append(
            f"equal tokens decode to different text in {texts} of {len(found.alignment.pairs)} sequences"
        )
    return tuple(said)


def _unexplained(found: Examination) -> str:
    """Say what results come to that differ although nothing upstream does."""
    results = found.a.document.results
    if results == found.b.document.results:
        return (
            f"NOT WHAT THEY SAY: both runs say that their results are {results[:12]}, and these are not the same, "
            "so one was changed after it was made"
        )
    return (
        "not deterministic: nothing recorded upstream differs, so the computation itself did not repeat, or "
        f"something unrecorded changed; {_parted_first(found)}"
    )


def _parted_first(found: Examination) -> str:
    """Say which captured output parted first, in the order in which an engine makes them."""
    places: list[tuple[int, int, str]] = []
    for order, name in enumerate(("activations", "logits")):
        comparison = found.tensors.get(name)
        first = None if comparison is None else comparison.first
        if first is not None and (row := first.first_row) is not None:
            places.append((row, order, f"the {name} of {first.name}, row {row}"))
    places += [
        (pair.output_common, 2, f"the tokens of {pair.a.id}, position {pair.output_common}")
        for pair in (found.alignment.first,)
        if pair is not None
    ]
    if not places:
        return "what is not the same is in one run only, was left out, or is the trace"
    return f"what parted first is {min(places)[2]}"


def is_mock(bundle: Bundle) -> bool:
    """Return whether a run's engine computes nothing."""
    return bundle.engine_name == MOCK_ENGINE


def experiment_notes(bundle: Bundle) -> tuple[str, ...]:
    """Return the line that a run of an experiment has: it was made as its manifest does not say."""
    made = bundle.engine.get(EXPERIMENT)
    if not isinstance(made, dict):
        return ()
    taken = f"{made.get('cached_tokens')} positions were taken from earlier requests"
    return (f"EXPERIMENT OF A PROBE, no run of its manifest: {made.get('kind')}, {taken}",)


def left_out_notes(reader: BundleReader) -> tuple[str, ...]:
    """Return a line for each file that is not with the others of a run, with where it can be had."""
    return tuple(
        f"{entry.path} is not with the others, it was left out: {entry.size} bytes, BLAKE3 {entry.blake3[:12]}; "
        f"a store that has the run has it, as {entry.subpath} of the object {entry.object[:12]}"
        for entry in reader.left_out().values()
    )


def server_departures(bundle: Bundle) -> tuple[str, ...]:
    """Return in what the server of a run is not what its manifest wants; nothing for another engine."""
    environment = bundle.engine.get("environment")
    if not isinstance(environment, dict) or environment.get("kind") != SERVER:
        return ()
    listed = environment.get("departures")
    return tuple(map(str, listed)) if isinstance(listed, list) else ()


def _divergences(found: Examination, store: ObjectFiles | None) -> "tuple[Divergence, ...]":
    if not found.alignment.parted:
        return ()
    from dis_derivations.comparison.decode_logits import DecodeLogits
    from dis_derivations.comparison.describing import describe_divergence
    from dis_derivations.comparison.token_text import token_text

    texts = token_text(found.a, store), token_text(found.b, store)
    with DecodeLogits(found.a) as logits_a, DecodeLogits(found.b) as logits_b:
        return tuple(
            describe_divergence(pair, (logits_a, logits_b), texts)
            for pair in found.alignment.described(MAX_DESCRIBED)
        )


def _curves(found: Examination, limit: int) -> "tuple[ErrorCurve, ...]":
    """Follow the sequences whose decode logits differ somewhere, from there on."""
    comparison = found.tensors.get("logits")
    if comparison is None:
        return ()
    pairs = {pair.a.id: pair for pair in found.alignment.pairs}
    first = {
        each.name.request: each.first_row
        for each in comparison.different
        if each.name.part == "decode" and each.first_row is not None
    }
    chosen = [request for request in first if request in pairs][:limit]
    if not chosen:
        return ()
    from dis_derivations.comparison.tensors.growth import Growth

    with Growth(found.a, found.b) as growth:
        curves = [growth.curve(pairs[request], first[request]) for request in chosen if request]
    return tuple(curve for curve in curves if curve is not None)


def _same_bundles(found: Examination) -> bool:
    """Compare digests where both sides have one, and otherwise the bytes of every member.

    What the examination has read already is not read again: a safetensors file has no bytes but its header and its
    tensors.
    """
    a, b = found.a.reader, found.b.reader
    digest_a, digest_b = a.digest(), b.digest()
    if digest_a is not None and digest_b is not None:
        return digest_a == digest_b
    names, others = (
        set(MEMBERS).intersection((*each.names(), *each.left_out())) for each in (a, b)
    )
    if names != others or not found.same:
        return False
    documents = sorted(names.difference(CAPTURE_FILES.values()))
    return all(_same_file(a, b, name) for name in documents) and all(
        comparison.one_file or _same_header(found.a, found.b, CAPTURE_FILES[observable])
        for observable, comparison in found.tensors.items()
    )


def _same_file(a: BundleReader, b: BundleReader, name: str) -> bool:
    with a.open(name) as file_a, b.open(name) as file_b:
        while chunk := file_a.read(_CHUNK_BYTES):
            if chunk != file_b.read(_CHUNK_BYTES):
                return False
        return not file_b.read(1)


def _same_header(a: Bundle, b: Bundle, name: str) -> bool:
    from dis_derivations.comparison.tensors.tensor_file import TensorFile

    with (
        TensorFile.of_bundle(a.reader, name) as file_a,
        TensorFile.of_bundle(b.reader, name) as file_b,
    ):
        return file_a.header() == file_b.header()
