"""Projects on the wire: what they are, whether their data arrives, and what to do next in them."""
