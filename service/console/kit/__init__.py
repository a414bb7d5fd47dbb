"""The ground of all pages: a visit, its reads, its forms, and the frame around it."""
