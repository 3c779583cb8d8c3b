"""The validation record of one run: what it is, what it was made of, what shows it, who repeated it."""
