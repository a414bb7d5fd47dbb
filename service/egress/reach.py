"""Where an address may lead: a caller's to the public internet alone, the operator's anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from service.egress.addresses import Ip, is_loopback, is_reachable
from service.egress.form import AddressRefused, Target

HTTPS_PORT = 443
FIRST_PORT = 1024
"""The first port at which anybody may listen; those below belong to mail, files and shells."""
CLOSED_PORTS = frozenset({3306, 5432, 6379, 9200, 11211, 27017})
"""Ports of databases. Some of these take the lines of an HTTP request for commands."""


class Reach(NamedTuple):
    """The rules lifted for an address: on addresses, on ports, and on http without TLS."""

    any_address: bool = False
    any_port: bool = False
    plain: Literal["nowhere", "loopback", "anywhere"] = "nowhere"

    def check_form(self, target: Target) -> None:
        """Check an address without a look-up. Raises AddressRefused."""
        if not target.secure and self.plain == "nowhere":
            raise AddressRefused("must begin with https://")
        port = target.port
        if not self.any_port and (port in CLOSED_PORTS or (port < FIRST_PORT and port != HTTPS_PORT)):
            raise AddressRefused("must have port 443, or one from 1024 on that is no database's")
        if target.ip is not None:
            self.check_addresses(target, (target.ip,))

    def check_addresses(self, target: Target, found: Iterable[Ip]) -> None:
        """Check every address of a host. A single bad one is enough to raise AddressRefused.

        Over http to loopback so is none: the name may lead anywhere later, and what is sent could be read on its way.
        """
        addresses = tuple(found)
        if not target.secure and self.plain == "loopback" and not (addresses and all(map(is_loopback, addresses))):
            raise AddressRefused("must begin with https://, unless it leads to loopback")
        if not self.any_address and not all(map(is_reachable, addresses)):
            raise AddressRefused("must lead to public addresses")


CALLERS = Reach()
"""For addresses of callers."""
DEVELOPMENT = Reach(any_address=True, any_port=True, plain="loopback")
"""For webhooks while the operator has set SERVICE_WEBHOOK_ALLOW_PRIVATE."""
OPERATOR = Reach(any_address=True, any_port=True, plain="anywhere")
"""For hosts in the operator's settings."""


def reach_of_webhooks(*, allow_private: bool) -> Reach:
    """Where webhooks may lead, by the operator's setting."""
    return DEVELOPMENT if allow_private else CALLERS
