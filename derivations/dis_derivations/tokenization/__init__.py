"""From prompts to token ids: datasets, chat templates and tokenizers, as pure functions of bytes."""
