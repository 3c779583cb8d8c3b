"""Builds that run with no network, and what is seen of those that try to use it."""
