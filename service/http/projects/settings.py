"""The settings of a project at the edge: read, and changed by its owners (G-202)."""

import asyncio
from functools import partial
from typing import Any

import msgspec
from litestar.params import JSONBody

from schemas.projects import ChangeSettings, ProjectSettings, ProjectSettingsChanged
from service.auth.authenticator import CACHE_SECONDS
from service.eventstore.declare.commands import Answer, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY, OWNER
from service.projects import project as settings_commands
from service.projects import project as show
from statemachines.projects.settings import SettingsWish

_PATH = "/v1/projects/{project_id}/settings"
_OF_INTAKE = frozenset({"default_level", "frame_variables"})
"""Settings remembered by processes together with a DSN, for at most CACHE_SECONDS."""


@groups.PROJECTS.get(_PATH, "Read the settings of a project")
@Who(KEY)
@Docs(ProjectSettings, extension=True)
async def get_project_settings(call: Call) -> Answer:
    """Show the settings in force, with their tag from the first change on."""
    shown = show.shown_settings(call.project_id, await show.settings_of(call.services.store, call.project_id))
    return Answer(200, shown, _tag(shown))


@groups.PROJECTS.patch(_PATH, "Change settings of a project")
@Who(OWNER, owner=True)
@Fencing(if_match="optional", idempotency="optional")
@Docs(ProjectSettingsChanged, extension=True)
async def change_project_settings(call: Call, data: JSONBody[ChangeSettings]) -> Outcome:
    """Change the settings in the body, as a fence. A loosening change turns an enabled contract off."""
    given = msgspec.structs.asdict(data).items()
    # A number is stored as its shortest decimal text.
    wished: dict[str, Any] = {n: repr(v) if isinstance(v, float) else v for n, v in given if v is not msgspec.UNSET}
    intent = settings_commands.change(
        call.project_id, SettingsWish(**wished), if_match=call.if_match, changed_by=call.user_id
    )
    outcome = await call.carry_out(intent, partial(_changed, call.project_id))
    if wished.keys() & _OF_INTAKE:
        call.services.authenticator.forget()
        await asyncio.sleep(CACHE_SECONDS)  # No other process remembers a DSN with the former settings after that.
    return outcome


def _changed(project_id: str, after: show.ChangedSettings) -> Answer:
    shown = show.changed(project_id, after)
    return Answer(200, shown, _tag(shown))


def _tag(shown: ProjectSettings) -> dict[str, str]:
    return {} if shown.etag is None else {"etag": shown.etag}


ENDPOINTS = [get_project_settings, change_project_settings]
