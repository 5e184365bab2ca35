"""Who runs the shards: this process, or a Ray cluster."""
