"""Transparency logs as outsiders know them: Merkle trees, tiles, signed notes, cosignatures and policies. No I/O."""
