"""docs/internals/formats/derivation.md: its worked example is what the code computes."""

import re
from pathlib import Path

from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.keys import build_key
from dis_store.digest import Digest

PAGE = Path(__file__).parents[3] / "docs/internals/formats/derivation.md"


def test_the_worked_example_recomputes() -> None:
    text = PAGE.read_text("utf-8")
    fixed, build = (
        Derivation.decode(block.encode())
        for block in re.findall(r"```json\n(.*?)\n```", text, re.DOTALL)
    )
    stated = re.findall(r"`([0-9a-f]{64})`", text)
    zeros = Digest("0" * 64)
    assert stated == [
        fixed.digest,
        build_key(fixed, {}, {}),
        build.digest,
        zeros,
        build_key(build, {"dataset": zeros}, {}),
    ]
