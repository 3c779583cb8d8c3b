"""`dis show-derivation` of a manifest whose engine is no part of dis."""

import json
from pathlib import Path

from command_line import Dis
from tiny_runs import write_manifest


def test_an_environment_that_is_read_later_is_null_and_said_to_be(dis: Dis, tmp_path: Path) -> None:
    config = write_manifest(tmp_path / "tiny")
    assert dis("lock", config).code == 0
    known = dis("show-derivation", f"{config}#closure")
    document = json.loads(config.read_text("utf-8"))
    document["runtime"]["execution"]["backend"] = "vllm"
    config.write_text(json.dumps(document), "utf-8")
    left_open = dis("show-derivation", f"{config}#closure")
    (closure,) = left_open.document.values()
    assert closure["args"]["environment"] is None
    assert "note: what the engine is made of is read when the manifest is realised" in left_open.err
    assert (known.code, left_open.code, known.err) == (0, 0, "")
