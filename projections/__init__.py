"""Read models: pure keyed folds over events, with the definitions of their tables. No I/O."""
