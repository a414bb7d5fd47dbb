"""`service conformance`: plays the service to a foreign runner, and names the rule it broke."""
