"""The version of dis, written down: asking the installed distribution for it costs more than a cached realisation."""

VERSION = "0.1.0"
