"""Derivations, the graph of a manifest, and the keys by which builds are remembered."""
