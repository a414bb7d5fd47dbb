"""Connections to PostgreSQL: how they are opened, pipelined, given up, and what they find there."""
