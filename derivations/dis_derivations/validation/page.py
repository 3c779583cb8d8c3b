"""A validation record as one self-contained page, to be archived beside the run."""

from dis_derivations.comparison.page.document import page
from dis_derivations.comparison.page.markup import Markup, element, joined, section, table
from dis_derivations.validation.record import ValidationRecord
from dis_derivations.validation.rendering import fact_rows, reproduction_text, signatures_text

_CLASSES = {"trusted": "good", "revoked": "bad", "other": "bad", "invalid": "bad"}
_SECTIONS = (
    ("what", "What it is"),
    ("parts", "What it was made of"),
    ("evidence", "Evidence"),
    ("reproductions", "Reproductions"),
    ("signatures", "Signed documents"),
    ("commands", "Check it, build it again"),
)


def record_page(record: ValidationRecord) -> str:
    """Return the record as a page that opens without a network and runs nothing."""
    bodies = {
        "what": _what(record),
        "parts": table(
            ["part", "object", "bytes"],
            [[each.name, element("code", each.object), _size(each.size)] for each in record.parts],
        ),
        "evidence": table(
            ["file", "bytes", "BLAKE3"],
            [
                [
                    each.path + (" (left out)" if each.left_out else ""),
                    _size(each.size),
                    element("code", each.blake3),
                ]
                for each in record.evidence
            ],
        ),
        "reproductions": _reproductions(record),
        "signatures": _signatures(record),
        "commands": table(
            ["command", "shows"],
            [[element("code", each.line), each.shows] for each in record.commands],
        ),
    }
    body = joined(section(title, bodies[place], id_=place) for place, title in _SECTIONS)
    return page(f"{record.name}: validation record", _SECTIONS, body)


def _what(record: ValidationRecord) -> Markup:
    rows = [[name, element("code", value)] for name, value in fact_rows(record)]
    return joined([element("p", record.description or "(no description)"), table(["", ""], rows)])


def _reproductions(record: ValidationRecord) -> Markup:
    rows = [
        [
            build.finished_at,
            build.host or "-",
            build.origin,
            element("span", "the same", class_="good")
            if build.identical
            else element("span", "other results", class_="bad"),
        ]
        for build in record.builds
    ]
    said = element("p", reproduction_text(record), class_="verdict")
    return joined(
        [said, table(["finished", "machine", "origin", "results"], rows) if rows else None]
    )


def _signatures(record: ValidationRecord) -> Markup:
    if not record.signatures:
        return element("p", "None.")
    rows = [
        [
            each.about,
            element("span", each.account, class_=_CLASSES.get(each.standing, "")),
            element("code", each.document),
        ]
        for each in record.signatures
    ]
    said = element("p", signatures_text(record.signatures), class_="verdict")
    return joined([said, table(["about", "signature", "document"], rows)])


def _size(size: int | None) -> str:
    return "not in this store" if size is None else f"{size:,}"
