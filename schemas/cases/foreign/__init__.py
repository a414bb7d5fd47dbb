"""Wire contracts of the doors for the SDKs and tools of others."""
