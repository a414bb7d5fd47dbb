"""Two tenants of one service: requests of the first are recorded, and the second tries to reach its objects (P19)."""
