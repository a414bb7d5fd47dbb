"""What all pages of the console stand on: a visit, its reads, its forms, and the frame around it."""
