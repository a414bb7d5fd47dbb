"""`service log` and `service witness`: the signed log, and cosigning those of others."""

from service.cli.log import continuing, showing
from service.cli.log.group import log

__all__ = ["continuing", "log", "showing"]
