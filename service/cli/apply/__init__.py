"""`service apply`: a contract kept in Git is compared with the saved one, and saved disabled, over HTTP alone."""
