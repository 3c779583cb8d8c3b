"""Closures as artefacts of OCI registries: how they are laid out there, sent, fetched, and used in place of builds."""
