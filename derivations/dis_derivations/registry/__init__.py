"""Registries that speak the OCI distribution protocol: what they have, and how it is fetched and sent."""
