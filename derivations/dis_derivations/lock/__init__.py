"""Locks: every name of a manifest turned into digests, checked against bytes that were read."""
