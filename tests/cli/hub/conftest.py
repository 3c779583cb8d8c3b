"""The hub and the manifest of the tests of a hub on the command line."""

from hub_runs import hub, manifest

__all__ = ["hub", "manifest"]
