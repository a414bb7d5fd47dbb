"""What a service manager is told about this process, by the protocol of systemd's sd_notify."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

READY = "READY=1"
STOPPING = "STOPPING=1"


def tell(*states: str) -> None:
    """Send states to the socket that NOTIFY_SOCKET names. Without one nobody asked."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.sendto("\n".join(states).encode(), name)
