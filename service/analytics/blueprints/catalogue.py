"""The blueprints by their ids, which are published and never change, and what is asked of one (G-065)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from service.analytics.blueprints import deploys, events, exposure, funnels
from service.analytics.blueprints.declared import Blueprint
from service.analytics.bounded import DEFAULT_ROWS
from service.analytics.refusals import BlueprintNotFound
from service.auth.refusals import InvalidPayload
from statemachines.kernel.canonical import with_whole_numbers
from statemachines.kernel.faults import MISSING, find_faults

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
VERSION: Final = "1.0.0"

CATALOGUE: Final[Mapping[str, Blueprint]] = {
    blueprint.id: blueprint
    for blueprint in (
        events.EVENT_COUNT,
        events.TOP_EVENTS,
        events.ACTIVE_USERS,
        events.EVENT_TREND,
        funnels.ORDERED_FUNNEL,
        funnels.PERIOD_COMPARE,
        events.RETENTION,
        events.BREAKDOWN,
        events.TOP_ERRORS,
        exposure.ERROR_FREE_USERS,
        events.ERRORS_BY_RELEASE,
        exposure.RELEASE_COMPARISON,
        deploys.DEPLOY_IMPACT,
        deploys.DEPLOY_RECURRENCE,
    )
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is well-formed. `limit` is how many rows are shown at most."""

    blueprint: Blueprint
    params: Any
    since: int | None
    until: int | None
    limit: int

    @property
    def effective(self) -> dict[str, Any]:
        """The parameters that the run goes by, with what those left out count as."""
        named: dict[str, Any] = msgspec.to_builtins(self.params)
        if self.since is not None or self.until is not None:
            named.pop("days", None)
        return named


def find_blueprint(blueprint_id: str) -> Blueprint:
    """Return a blueprint. Raises BlueprintNotFound."""
    found = CATALOGUE.get(blueprint_id)
    if found is None:
        raise BlueprintNotFound
    return found


def ask_for(
    blueprint_id: str,
    params: Mapping[str, Any],
    since: int | None = None,
    until: int | None = None,
    limit: int = DEFAULT_ROWS,
    schema: dict[str, Any] | None = None,
) -> Asked:
    """Check what is asked of a blueprint; `schema` is that of the body it came in.

    Unknown parameters are ignored (G-003). Raises BlueprintNotFound, and InvalidPayload that names every bad member.
    """
    blueprint = find_blueprint(blueprint_id)
    given = with_whole_numbers(dict(params))
    if (since is not None or until is not None) and "days" in given:
        raise InvalidPayload(
            "The window is given twice.",
            invalid=[("params.days", "must be left out where from or to is given")],
            schema=schema,
        )
    try:
        converted = msgspec.convert(given, blueprint.params)
    except msgspec.ValidationError as error:
        found = list(find_faults(given, msgspec.inspect.type_info(blueprint.params), "params"))
        missing = [fault.path for fault in found if fault.code == MISSING]
        invalid = [(fault.path, f"must be {fault.expected}") for fault in found if fault.code != MISSING]
        if not found:
            invalid = [("params", str(error.__cause__ or "must have the form that the schema shows"))]
        raise InvalidPayload(
            "The parameters do not fit the blueprint.", missing=missing, invalid=invalid, schema=schema
        ) from None
    return Asked(blueprint=blueprint, params=converted, since=since, until=until, limit=limit)
