"""Files of models as artifacts: what they hold, which are safe, how captures are written."""
