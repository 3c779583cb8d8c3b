"""Python environments that are pinned: made of wheels, in the store, or found on this machine and verified."""
