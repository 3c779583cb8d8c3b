"""Fetching bytes over HTTP, from what a manifest names and from nowhere else."""
