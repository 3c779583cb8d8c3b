"""Manifests, locks, derivations, runs and their comparison, on top of a `dis_store.Store`."""
