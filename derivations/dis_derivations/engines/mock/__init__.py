"""An engine that computes nothing: instant, the same everywhere, for load tests."""
