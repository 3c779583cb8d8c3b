"""The page about the manifest has every field of the schema, as the schema has it, and no other."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

from dis_derivations.manifest.field_effects import FIELD_EFFECTS, row_of
from dis_derivations.manifest.loading import load_manifest
from dis_derivations.manifest.schema import manifest_schema
from manifest_documents import smallest_manifest, write_json

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/reference/manifest.md"


def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "manifest_fields", ROOT / "docs/manifest_fields.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_page_are_those_that_the_schema_makes() -> None:
    page = PAGE.read_text("utf-8")
    assert tables().rewritten(page) == page


def test_every_field_of_the_schema_is_classified_and_stands_on_the_page_once() -> None:
    page = PAGE.read_text("utf-8")
    rows = {row_of(field.path) for field in tables().schema_fields()}
    assert rows == {effect.path for effect in FIELD_EFFECTS}
    assert len(FIELD_EFFECTS) == len(rows) > 100
    assert [row for row in rows if page.count(f"\n| `{row}` |") != 1] == []


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
