"""Values of settings that options know as well."""

PROGRESS_MODES = ("auto", "tty", "plain", "json", "none")
FOR_EVER = "forever"
