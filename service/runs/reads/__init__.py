"""What is read of runs, receipts, claims and decisions."""
