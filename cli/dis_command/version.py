"""The version of dis, written down: asking the installed distribution for it costs more than the rest of start-up."""

VERSION = "0.1.0"
