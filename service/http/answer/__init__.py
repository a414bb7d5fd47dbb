"""What is answered: errors as clients see them, pages, and the answer on the wire."""
