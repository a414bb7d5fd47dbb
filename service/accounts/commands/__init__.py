"""What may be done with people, keys, memberships and sign-ins: a module per machine."""
