"""Comparing runs of the older tool with each other and with runs of dis."""
