"""Values of settings that options know as well."""

PROGRESS_MODES = ("auto", "tty", "plain", "json", "none")
TRUST_MODES = ("require", "warn", "off")
FOR_EVER = "forever"
