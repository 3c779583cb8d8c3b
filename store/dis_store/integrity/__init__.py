"""Whether the store still holds what it says: verification, repair, quarantine, and the index made anew."""
