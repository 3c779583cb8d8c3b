"""Reports as one self-contained page: no request leaves it, and nothing in it is taken for markup."""
