"""The install flow, on the wire."""
