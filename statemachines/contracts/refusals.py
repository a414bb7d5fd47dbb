"""What stands in the way of an automation, whoever asks: no contract holds it, it is off, or a pause is in force.

Messages are fixed sentences: nothing that a caller, a runner or telemetry wrote is ever part of one (threat 14).
"""

from __future__ import annotations

from statemachines.kernel.machine import Rejection


class AutomationNotFound(Rejection):
    """The contract has no such automation."""

    code = "automation_not_found"


class AutomationOff(Rejection):
    """The automation is off, or runs under another policy than the one asked about (G-114)."""

    code = "automation_disabled"


class PauseInForce(Rejection):
    """The whole contract is paused (G-114)."""

    code = "automation_paused"
