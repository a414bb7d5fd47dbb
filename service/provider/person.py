"""What a project's provider has of one person, for the summary of that person (R-CASE-07, G-055)."""

from __future__ import annotations

from typing import NamedTuple

from schemas.provider import SessionRecording
from service.analytics.refusals import QueriesBusy
from service.provider import listing
from service.provider.exchanges import Exchanges
from service.provider.sources import ProviderSources
from statemachines.kernel.readings import ReadFailed

MOST_RECORDINGS = 20


class PersonAtProvider(NamedTuple):
    """The newest recordings of a person, None when they could not be read, and the person's page at the provider."""

    recordings: list[SessionRecording] | None
    web_ui_url: str | None


async def person_at_provider(
    sources: ProviderSources, exchanges: Exchanges, project_id: str, account: str, distinct_id: str, *, locked: bool
) -> PersonAtProvider:
    """Read the recordings of a person. They are raw data, so a `locked` account has none read (G-072)."""
    source = await sources.of_recordings(project_id, account)
    if source is None:
        return PersonAtProvider([], None)
    page = source.page_of("person", distinct_id)
    if locked:
        return PersonAtProvider(None, page)
    if source.lacks("session_recording:read"):
        return PersonAtProvider([], page)
    try:
        async with exchanges.turn(account):
            found = await listing.recordings(source, MOST_RECORDINGS, distinct_id=distinct_id)
    except QueriesBusy:
        return PersonAtProvider(None, page)
    return PersonAtProvider(None if isinstance(found, ReadFailed) else found.items, page)
