"""A worker of vLLM whose requests may take positions from earlier ones: for experiments, not for runs of manifests."""

from dataclasses import replace
from typing import Any

from dis_derivations.engines.child.engine import ChildEngine
from dis_derivations.engines.child.messages import Generated
from dis_derivations.runs.bundle import EXPERIMENT

WARM_CACHE = "warm prefix cache"
"""What the experiment is called where it is recorded."""


class CachingChild(ChildEngine):
    """Counts the positions that were taken from the cache; for any other worker they are a fault."""

    _cached_tokens = 0

    def experiment(self) -> dict[str, Any]:
        """Return what makes this no run of a manifest, for `engine.json`."""
        return {EXPERIMENT: {"kind": WARM_CACHE, "cached_tokens": self._cached_tokens}}

    def _check_end(self, end: Generated) -> None:
        self._cached_tokens = end.cached_tokens
        super()._check_end(replace(end, cached_tokens=0))
