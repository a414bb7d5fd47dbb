"""The processes of the service, and what runs in each."""
