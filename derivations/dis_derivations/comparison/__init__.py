"""Comparing runs: are the results the same, where do they part, why, and the grade of a reproduction."""
