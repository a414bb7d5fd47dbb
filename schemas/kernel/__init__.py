"""What every wire contract shares: errors, pages, the table of documented operations."""
