"""The reference engine: the same bits on every machine with IEEE-754 doubles."""
