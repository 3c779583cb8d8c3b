"""Manifests: reading files, inheritance, overrides, the schema, and identity."""
