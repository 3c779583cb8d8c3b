"""A content-addressed store of immutable trees. Knows nothing about models."""
