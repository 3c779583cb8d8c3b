"""A comparison of two runs as one page."""

from dis_derivations.comparison.causes.package_changes import PackageChanges
from dis_derivations.comparison.causes.upstream import Cause
from dis_derivations.comparison.conclusion import in_short, verdict
from dis_derivations.comparison.divergence import Divergence, SideLogits, Token
from dis_derivations.comparison.page.document import page
from dis_derivations.comparison.page.error_curves import error_curves
from dis_derivations.comparison.page.heat_map import heat_map, heat_map_data
from dis_derivations.comparison.page.markup import Markup, element, joined, section, table
from dis_derivations.comparison.page.provenance_graph import provenance_graph
from dis_derivations.comparison.render_divergence import CHOICES, OTHER_PROMPTS
from dis_derivations.comparison.render_packages import package_row
from dis_derivations.comparison.render_text import (
    first_element,
    observables,
    telling_tensors,
    tensor_row,
)
from dis_derivations.comparison.report import DiffReport, RunIdentity
from dis_derivations.comparison.sequences import SequencePair
from dis_derivations.comparison.text_layout import change_lines, count, number, size, steps

_SHOWN_CHANGES = 24
_SHOWN_ROWS = 2000
_SHOWN_TENSORS = 24
_SHOWN_PACKAGES = 200


def diff_page(report: DiffReport) -> str:
    """Return the report as a page; it opens without a network, and nothing in it can run or fetch anything."""
    parts = [
        ("summary", "Summary", _summary(report)),
        ("first-divergence", "First divergence", _first(report)),
        ("heat-map", "Sequences and positions", heat_map(report)),
        ("logit-error", "Logit error", error_curves(report.curves)),
        ("tensors", "Where captured values part", _tensors(report)),
        ("causes", "Causes", _causes(report)),
        ("packages", "Packages in the images", _packages(report.upstream.packages)),
        ("texts", "Texts", _texts(report)),
        ("provenance", "Provenance", _provenance(report)),
        ("sequences", "Sequences that part", _sequences(report)),
    ]
    there = [(place, title, body) for place, title, body in parts if body is not None]
    body = joined(section(title, body, id_=place) for place, title, body in there)
    title = f"{_called(report.a)} and {_called(report.b)}: {verdict(report)}"
    return page(title, [(place, name) for place, name, _ in there], body, heat_map_data(report))


def _summary(report: DiffReport) -> Markup:
    bundles = "the same" if report.bundles_identical else "different"
    runs = [_identity("A", report.a), _identity("B", report.b)]
    return joined(
        [
            element(
                "p",
                f"Results: {verdict(report).upper()}",
                class_=f"verdict {'same' if report.same else 'different'}",
            ),
            element("p", in_short(report)),
            table(["observable", "status", "account"], observables(report.examination)),
            element("p", f"The bundles are {bundles}, byte for byte.", class_="dim"),
            table(["", "name", "engine", "bundle", "run", "manifest", "lock"], runs),
            element("ul", *(element("li", note) for note in report.notes))
            if report.notes
            else None,
        ]
    )


def _called(run: RunIdentity) -> str:
    return f"{run.name} {run.run_id.hex[:8]}"


def _identity(label: str, run: RunIdentity) -> list[object]:
    bundle = "a run directory" if run.bundle is None else run.bundle[:16]
    verified = "" if run.verified else ", DIGESTS NOT VERIFIED"
    ids = [bundle, run.run_id.hex[:16], run.manifest_id.hex[:16], run.lock_id.hex[:16]]
    return [label, run.name, f"{run.engine}{verified}", *(element("code", each) for each in ids)]


def _first(report: DiffReport) -> Markup | None:
    first = report.examination.alignment.first
    if first is None or report.divergence is None:
        return None
    return _divergence(first, report.divergence)


def _divergence(pair: SequencePair, found: Divergence) -> Markup:
    rows: list[list[object]] = [
        ["request", found.request],
        ["output position", found.position],
        *_optional("prompts", "" if pair.same_prompt else OTHER_PROMPTS),
        ["before", element("code", " ".join(map(_token, found.context)) or "(nothing)")],
        ["A", element("code", _chosen(found.token_a))],
        ["B", element("code", _chosen(found.token_b))],
        *_optional("text", found.text_before and element("code", f"…{found.text_before}")),
        ["A goes on", element("code", found.text_a)],
        ["B goes on", element("code", found.text_b)],
        *_side("A", found.logits_a),
        *_side("B", found.logits_b),
    ]
    choice = element("p", element("strong", CHOICES[found.choice])) if found.choice else None
    return joined([choice, table(["", ""], rows)])


def _optional(label: str, said: object) -> list[list[object]]:
    return [[label, said]] if said else []


def _side(label: str, side: SideLogits | None) -> list[list[object]]:
    if side is None:
        return []
    best = ", ".join(f"{_token(each.token)} {number(each.logit, side.dtype)}" for each in side.top)
    margin = f"{size(side.margin)} over {_token(side.runner_up.token)}, {steps(side.margin_ulp)}"
    return [
        [f"{label} top {len(side.top)} ({side.dtype})", element("code", best)],
        [f"{label} margin", element("code", margin)],
    ]


def _tensors(report: DiffReport) -> Markup | None:
    found = report.examination
    parts: list[Markup] = []
    for name, telling in telling_tensors(found).items():
        rows = [tensor_row(each) for each in telling[:_SHOWN_TENSORS]]
        more = len(telling) - len(rows)
        parts += [
            element("h3", name.capitalize()),
            element("p", f"First: {first_element(found.tensors[name].first)}"),
            table(["tensor, as a model computes them", "what differs"], rows),
        ]
        parts += [element("p", f"… and {more} more (--json has all)")] if more > 0 else []
    return joined(parts) if parts else None


def _packages(found: PackageChanges | None) -> Markup | None:
    if found is None:
        return None
    rows = [package_row(each) for each in found.packages[:_SHOWN_PACKAGES]]
    more = len(found.packages) - len(rows)
    unread = [element("li", each) for each in found.unread[:_SHOWN_PACKAGES]]
    header = ["package", "system", "A → B", "what is known of its effect"]
    return joined(
        [
            element("p", f"{found.statement}."),
            table(header, rows) if rows else None,
            element("p", f"… and {more} more (--json has them)") if more > 0 else None,
            element("ul", *unread) if unread else None,
        ]
    )


def _causes(report: DiffReport) -> Markup | None:
    causes = [_cause(cause, f"cause-{cause.kind}") for cause in report.causes]
    harmless = [_cause(cause, None) for cause in report.upstream.provenance]
    if not causes and not harmless:
        return None
    return joined(
        [
            element("ol", *causes) if causes else element("p", "Nothing upstream differs."),
            element("h3", "Different, but no reason") if harmless else None,
            element("ul", *harmless) if harmless else None,
        ]
    )


def _cause(cause: Cause, place: str | None) -> Markup:
    said = change_lines(cause.changes)
    changes = [element("li", element("code", each)) for each in said[:_SHOWN_CHANGES]]
    more = len(said) - len(changes)
    rest = element("li", f"… and {more} more (--json has all)") if more > 0 else None
    effect = element("div", cause.effect, class_="dim") if cause.effect else None
    return element(
        "li", element("strong", cause.statement), effect, element("ul", *changes, rest), id=place
    )


def _texts(report: DiffReport) -> Markup | None:
    texts = report.upstream.texts
    if not texts:
        return None
    return joined(
        element("div", element("h3", each.subject), element("pre", "\n".join(each.lines)))
        for each in texts
    )


def _provenance(report: DiffReport) -> Markup:
    kinds = frozenset(cause.kind for cause in report.causes)
    about = "An object that is not the same in both runs is coloured; it leads to its cause."
    graph = provenance_graph(report.examination.a, report.examination.b, kinds)
    return joined([element("p", about), graph])


def _sequences(report: DiffReport) -> Markup | None:
    alignment = report.examination.alignment
    described = {each.request: each for each in report.divergences}
    places = {pair.a.id: index for index, pair in enumerate(alignment.pairs)}
    rows = [
        _sequence(pair, described.get(pair.a.id), places[pair.a.id])
        for pair in alignment.parted[:_SHOWN_ROWS]
    ]
    alone = [
        element("p", f"only in {label}: {', '.join(ids[:_SHOWN_CHANGES])}")
        for label, ids in (("A", alignment.only_a), ("B", alignment.only_b))
        if ids
    ]
    more = len(alignment.parted) - len(rows)
    rest = (
        element("p", f"… and {count(more, 'more sequence')} (--json has all)") if more > 0 else None
    )
    return joined([*alone, *rows, rest]) if rows or alone else None


def _sequence(pair: SequencePair, found: Divergence | None, index: int) -> Markup:
    said = f"{pair.a.id}: position {pair.output_common}"
    if not pair.same_prompt:
        said += ", other prompt"
    if found is None:
        return element("p", said, id=f"sequence-{index}")
    said += f", {found.choice}" if found.choice else ""
    return element(
        "details", element("summary", said), _divergence(pair, found), id=f"sequence-{index}"
    )


def _token(token: Token) -> str:
    return str(token.id) if token.text is None else f'{token.id} "{token.text}"'


def _chosen(token: Token | None) -> str:
    return "(has ended)" if token is None else _token(token)
