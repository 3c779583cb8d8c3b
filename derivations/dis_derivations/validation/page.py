"""A validation record as one self-contained page, to be archived beside the run."""

import json

from dis_derivations.comparison.page.document import page
from dis_derivations.comparison.page.markup import Markup, element, joined, section, table
from dis_derivations.validation.record import ValidationRecord
from dis_derivations.validation.rendering import reproduction_text

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
                [each.path, _size(each.size), element("code", each.blake3)]
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
    documents = {
        **record.facts, "engine": record.engine, "platform": record.platform, "capture": record.capture,
        "hardware": list(record.hardware),
    }  # fmt: skip
    rows = [[name, element("code", _value(value))] for name, value in documents.items()]
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
    listed = (element("li", element("code", each)) for each in record.signatures)
    return joined(
        [element("p", "None of them was verified for this page."), element("ul", *listed)]
    )


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=dict)


def _size(size: int | None) -> str:
    return "not in this store" if size is None else f"{size:,}"
