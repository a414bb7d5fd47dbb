"""The outbox: deliveries made from the log, and the worker that sends them (R-WEB-07, G-159)."""
