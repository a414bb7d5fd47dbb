"""Two tenants of one service: one leaves a trail, the other walks it and reaches for what is not theirs (P19)."""
