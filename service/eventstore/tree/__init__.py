"""The Merkle tree over positions: its tiles, its signed checkpoints, and proofs (G-169)."""
