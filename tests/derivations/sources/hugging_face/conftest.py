"""The hub and the store of the tests of a hub as a source."""

from hub_files import files, hub, store

__all__ = ["files", "hub", "store"]
