"""Witnesses: cosigning the logs of others, and asking others to cosign ours (C2SP tlog-witness)."""
