"""The copy of telemetry in ClickHouse: an exact one, which answers questions and decides nothing (G-200)."""
