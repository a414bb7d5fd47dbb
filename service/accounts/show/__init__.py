"""How people, keys and members are shown."""
