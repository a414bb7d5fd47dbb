"""Archives of projects: all that is stored of one, in one file for its owner that the verifier can check."""
