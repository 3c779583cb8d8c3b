"""A realisation with nothing to do, beside the import of the library that parses its command line."""

import sys
from pathlib import Path

from adding import call_dis, compiled_environment
from nix_store import quiet
from stopwatch import Comparison, Contender, Target

_CONFIG = Path(__file__).parents[2] / "configs" / "quickstart.json"


def comparisons(place: Path) -> list[Comparison]:
    """Return the comparison; the store is below `place`."""
    store = place / "store"
    call_dis(store, "realize", str(_CONFIG))
    return [
        Comparison(
            "Realise what is there (`dis realize configs/quickstart.json`)",
            (
                Contender("python -c 'import click'", lambda: _python("import click")),
                Contender("dis realize", lambda: call_dis(store, "realize", str(_CONFIG))),
                Contender("python -c pass", lambda: _python("pass")),
            ),
            (Target("dis realize", "python -c 'import click'", 1.6),),
            rounds=31,
        )
    ]


def _python(code: str) -> None:
    quiet([sys.executable, "-c", code], compiled_environment())
