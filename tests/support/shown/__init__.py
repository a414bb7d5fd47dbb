"""The examples of the schema document: real exchanges of a tour, without what differs from one to the next."""
