"""Logs made up for the verifier: exports, trees, signed checkpoints, and twelve ways to forge them."""
