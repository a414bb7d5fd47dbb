"""Wire contracts: msgspec structs for requests, responses and errors. No I/O, no logic."""
