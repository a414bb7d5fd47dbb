"""History read anew: rebuilds of read models, checks of what is stored, rows as they were, and bundles of streams."""
