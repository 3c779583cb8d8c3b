"""The server and the store of the tests of transfers."""

from transport_site import site

__all__ = ["site"]
