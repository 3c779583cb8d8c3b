"""Where the bytes of artifacts come from."""
