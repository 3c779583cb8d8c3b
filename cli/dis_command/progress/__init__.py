"""Showing on stderr how far the work has come."""
