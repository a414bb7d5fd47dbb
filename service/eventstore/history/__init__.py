"""What is made of stored events: checks, folds, rebuilds, bundles, and rows as they were."""
