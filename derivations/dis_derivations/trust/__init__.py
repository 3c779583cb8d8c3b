"""Who vouches for what: keys, signed claims about builds, the policy that accepts them, attestations of others."""
