"""One file a task: where its data comes from, how it is encoded, its splits, its baselines."""
