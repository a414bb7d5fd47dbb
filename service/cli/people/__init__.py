"""Commands about people: their keys and sign-ins, and their places in projects."""
