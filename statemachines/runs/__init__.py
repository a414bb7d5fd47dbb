"""Carrying an automation out: receipts, leases, claims, runs, charges, approvals, grants and proof."""
