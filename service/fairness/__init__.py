"""Whose work comes next: what is scarce is taken in turn by tenants, and nobody stops another (P25, P27)."""
