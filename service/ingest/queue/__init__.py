"""Records that wait for their flush."""
