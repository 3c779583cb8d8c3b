"""Closures as one archive: written, read, and received in pieces."""
