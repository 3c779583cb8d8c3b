"""Turning derivations into objects: what is already known, what must be built, in which order, and by whom."""
