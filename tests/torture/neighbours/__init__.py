"""P25, nobody stops another: two tenants at their daily work while a third does the worst that is legal."""
