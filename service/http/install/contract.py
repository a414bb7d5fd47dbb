"""The install contract, and the setup of a project (R-INST-01 to R-INST-04, G-061)."""

from __future__ import annotations

from functools import cache

from schemas.install import InstallContract, ProjectSetup
from service.eventstore.declare.commands import Answer
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Who
from service.http.edge.declare.operations import ANYONE, KEY
from service.http.edge.routes import all_endpoints
from service.install import flow
from service.install.flow import contract, setup_of


@groups.INSTALL.get("/v1/install/contract", "Read the install flow: states, steps and gates")
@Who(ANYONE)
@Docs(InstallContract)
async def get_install_contract(_: Call[None, None]) -> Answer:
    """Show the flow with the operations that are served here."""
    return Answer(200, _contract(), {"cache-control": "public, max-age=300"})


@groups.INSTALL.get("/v1/projects/{project_id}/setup", "Read the variables and addresses to install a project with")
@Who(KEY)
@Docs(ProjectSetup)
async def get_setup(call: Call[None, None]) -> Answer:
    """Show names and places of variables, addresses, and the state of the flow. No secret is shown."""
    services = call.services
    found = await setup_of(services.store, call.project_id, call.user_id)
    return Answer(200, flow.setup(services.settings.base_url, call.project_id, found))


@cache
def _contract() -> InstallContract:
    return contract({f"{e.operation.method} {e.operation.path}" for e in all_endpoints()})


ENDPOINTS = [get_install_contract, get_setup]
