"""One module for each command of `dis`."""
