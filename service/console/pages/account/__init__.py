"""Pages about the person: sessions, and sign-ins of devices."""
