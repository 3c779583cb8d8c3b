"""Checks of what a manifest's results do not depend on: plans, experiments, verdicts."""
