"""The `dis` command: parse, call the library, print."""
