"""The log as outsiders check it: reads of the tree and its checkpoints (G-169)."""
