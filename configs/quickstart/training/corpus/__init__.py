"""The seeded grammar that the quickstart model's training text comes from."""
