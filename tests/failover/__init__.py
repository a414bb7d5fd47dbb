"""A database host dies while programs of others report and write: three PostgreSQL under Patroni, on loopback."""
