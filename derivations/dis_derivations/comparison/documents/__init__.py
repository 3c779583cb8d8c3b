"""Comparing what is neither a run nor weights: manifests, locks, closures, tokenizers, datasets, other objects."""
