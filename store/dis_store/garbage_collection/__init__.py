"""Garbage collection: what is alive, what goes, in which order, and how it leaves the disk."""
