"""Runs: the bundle that a run leaves, its directory of files, and ways to name it."""
