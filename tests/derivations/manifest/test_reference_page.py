"""The page about the manifest names every field of the schema, and no other."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from dis_derivations.manifest.fault_messages import _blocks_in
from dis_derivations.manifest.loading import load_manifest
from dis_derivations.manifest.schema import Manifest, manifest_schema
from manifest_documents import smallest_manifest, write_json

PAGE = Path(__file__).parents[3] / "docs/reference/manifest.md"

# Blocks that occur in several places have one row for all of them.
_SHARED = (
    (r"^determinism\.compare\.\w+\.", "determinism.compare.*."),
    (r"^cuda_stack\.userspace\.\w+\.", "cuda_stack.userspace.*."),
    (r"^inference\.dataset\.source\..*", "inference.dataset.source"),
    (r"^model\.\w+\.source\.(?!remote)", "model.*.source."),
    (r"^model\.\w+\.files\[\]", "model.*.files[]"),
    (r"^inference\.[\w\[\]]+\.(sampling|stop)\.", r"inference.*.\1."),
)


def fields(block: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the paths of all fields that hold no block, a list's items marked by `[]`."""
    for name, field in block.model_fields.items():
        inner = next(_blocks_in(field.annotation), None)
        if inner is None:
            yield prefix + name
        else:
            is_list = "tuple" in str(field.annotation)
            yield from fields(inner, f"{prefix}{name}{'[]' if is_list else ''}.")


def rows() -> list[str]:
    return re.findall(r"^\| `([\w.*\[\]]+)` \|.*\|$", PAGE.read_text("utf-8"), re.MULTILINE)


def documented(path: str) -> str:
    for pattern, replacement in _SHARED:
        path = re.sub(pattern, replacement, path)
    return path


def test_the_page_has_one_row_for_each_field_of_the_schema() -> None:
    found = [
        row for row in rows() if row not in {"weights", "tokenizer", "config", "chat_template"}
    ]
    assert len(found) == len(set(found))
    assert set(found) == {documented(path) for path in fields(Manifest)}


def test_the_json_schema_closes_every_block_and_opens_it_to_notes() -> None:
    schema = manifest_schema()
    definitions = [*schema["$defs"].values(), schema]
    assert len(definitions) > 30
    for definition in definitions:
        if definition.get("type") == "object":
            assert definition["additionalProperties"] is False
            assert "^x_" in definition["patternProperties"]


def test_the_json_schema_is_plain_json() -> None:
    assert json.loads(json.dumps(manifest_schema())) == manifest_schema()


def test_the_example_of_an_override_works(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    assert "--set /runtime/env/A.B=1" in text
    assert """--set metadata.name='"7"'""" in text
    path = write_json(tmp_path / "m.json", smallest_manifest())
    loaded = load_manifest(path, ["/runtime/env/A.B=x", 'metadata.name="7"'])
    assert loaded.manifest.runtime.env["A.B"] == "x"
    assert loaded.manifest.metadata.name == "7"
