"""The log as outsiders check it: wire contracts."""
