"""What the kernel is asked for: open files, and a listening socket that takes no more connections."""

from __future__ import annotations

import ctypes
import resource
import socket
import struct
from contextlib import suppress

OWN_FILES = 256  # descriptors that a process needs besides its connections: database, log, sockets to providers
MAX_CONNECTIONS = 8192  # of one API process, whatever the limit of open files allows
STALLED_SECONDS = 30  # a client that takes nothing of an answer for so long is gone

SO_ATTACH_FILTER = 26  # not in Python's socket module (Linux, asm-generic/socket.h)
# Classic BPF over the TCP header: load the flags, keep SYN and ACK, drop what is a SYN alone, pass the rest.
_NO_SYN = ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))


def raise_open_files() -> int:
    """Raise this process's limit of open files to what it may have; returns the limit. Children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + OWN_FILES if hard == resource.RLIM_INFINITY else min(MAX_CONNECTIONS + OWN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if limit == resource.RLIM_INFINITY else limit


def most_connections(open_files: int) -> int:
    """How many connections a process with that limit of open files holds at once."""
    return max(OWN_FILES, min(MAX_CONNECTIONS, open_files - OWN_FILES))


def drop_stalled(listening: socket.socket) -> None:
    """Let the kernel close connections whose client takes nothing of what is sent; accepted sockets inherit it."""
    with suppress(AttributeError, OSError):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)


def take_no_more(listening: socket.socket) -> None:
    """Let no further connection begin, while those that have are still accepted.

    A listening socket that is closed resets what waits in its queue, requests that have arrived included. Without an
    answer to its SYN a client tries again a second later, and is refused, or finds the next process. Linux only;
    elsewhere a connection that comes in the last moment may be reset.
    """
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in _NO_SYN))
    program = struct.pack("HP", len(_NO_SYN), ctypes.addressof(instructions))
    with suppress(OSError):
        listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
