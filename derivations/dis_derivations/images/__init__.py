"""Container images: kept as OCI layouts, pinned by digest, loaded into Docker from the store."""
