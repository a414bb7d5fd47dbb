"""The source snapshot helper that clients run, and its bytes as this service serves them (R-ONB-64)."""

import hashlib
from importlib import resources
from typing import NamedTuple

FILE = "source-snapshot.mjs"


class Module(NamedTuple):
    """The bytes of the helper, and the quoted strong tag of them."""

    body: bytes
    etag: str


def load_module() -> Module:
    """Read the helper from the package."""
    body = resources.files(__name__).joinpath(FILE).read_bytes()
    return Module(body, f'"{hashlib.sha256(body).hexdigest()}"')
