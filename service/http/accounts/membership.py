"""Members of a project: listed, invited and removed by owners. Invitations, accepted by the invited (G-177)."""

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from schemas import accounts as wire
from schemas.kernel.shape import PageQuery
from service.accounts import membership as invitations
from service.accounts import membership as memberships
from service.accounts import person, show
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import PageEnd
from service.http.answer.paging import page, start_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY, OWNER
from statemachines.accounts.invitation import no_invitation
from statemachines.accounts.membership import Role


@groups.PROJECTS.get("/v1/projects/{project_id}/members", "List the members of a project and its open invitations")
@Who(OWNER, owner=True)
@Fencing(mutation=False)
@Docs(wire.MemberList, extension=True)
async def list_members(call: Call, params: NamedDependency[PageQuery]) -> Answer:
    """List the members, newest first, and what is still offered."""
    store, project_id = call.services.store, call.project_id
    found = await person.members_page(store, project_id, start_of(params), params.limit + 1)
    members, cursor = page(found, params, lambda member: PageEnd(member.created_at, member.id))
    return Answer(200, show.member_list(project_id, members, await person.open_invitations(store, project_id), cursor))


@groups.PROJECTS.post("/v1/projects/{project_id}/members", "Invite an address to a project, or change a member's role")
@Who(OWNER, owner=True, fresh=True)
@Fencing(idempotency="optional")
@Docs({202: wire.MemberInvited}, errors=("last_owner", "too_many_invitations"), extension=True)
async def invite_member(call: Call, data: JSONBody[wire.InviteMember]) -> Outcome:
    """Make an invitation for the owner to hand over. Nothing changes before it is accepted."""
    store = call.services.store
    role = Role(data.role)
    intent = await invitations.invite(store, call.project_id, data.email, role, invited_by=call.user_id)
    outcome = await call.carry_out(intent, lambda made: Answer(202, show.invited(made)))
    call.services.authenticator.forget()
    return outcome


@groups.PROJECTS.delete("/v1/projects/{project_id}/members/{user_id}", "Remove a member from a project")
@Who(OWNER, owner=True)
@Fencing(idempotency="optional")
@Docs(wire.MemberRemoved, errors=("not_found", "last_owner"), extension=True)
async def remove_member(call: Call, user_id: FromPath[str]) -> Outcome:
    """End a membership. From the answer on nothing that rests on it commits."""
    intent = await memberships.remove(call.services.store, call.project_id, user_id)
    answer = Answer(200, show.member_removed(call.project_id, user_id))
    outcome = await call.carry_out(intent, lambda _: answer)
    call.services.authenticator.forget()
    return outcome


@groups.PROJECTS.delete("/v1/projects/{project_id}/members/invitations/{invitation_id}", "Revoke an invitation")
@Who(OWNER, owner=True)
@Fencing(idempotency="optional")
@Docs(wire.InvitationRevokedBody, errors=("not_found",), extension=True)
async def revoke_invitation(call: Call, invitation_id: FromPath[str]) -> Outcome:
    """Revoke an invitation. From the answer on nobody can accept it."""
    intent = await invitations.revoke(call.services.store, call.project_id, invitation_id)
    return await call.carry_out(intent, lambda made_id: Answer(200, show.invitation_revoked(made_id)))


@groups.PROJECTS.get(
    "/v1/members/invitations/{invitation_id}", "Show an invitation to the person with the invited address"
)
@Who(KEY)
@Fencing(mutation=False)
@Docs(wire.InvitationBody, errors=("not_found",), extension=True)
async def get_invitation(call: Call, invitation_id: FromPath[str]) -> Answer:
    """Show an invitation to the person with its verified address, and to nobody else."""
    return Answer(200, show.offered(await _offered(call, invitation_id)))


@groups.PROJECTS.post("/v1/members/invitations/{invitation_id}/accept", "Accept an invitation to a project")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.InvitationAcceptedBody, errors=("not_found",), extension=True)
async def accept_invitation(
    call: Call,
    data: JSONBody[wire.AcceptInvitation],  # noqa: ARG001 - only its form counts
    invitation_id: FromPath[str],
) -> Outcome:
    """Become what was offered, as the person with the verified address."""
    found = await _offered(call, invitation_id)
    intent = invitations.accept(found.invitation, call.user_id)
    outcome = await call.carry_out(intent, lambda joined: Answer(200, show.invitation_accepted(joined)))
    call.services.authenticator.forget()
    return outcome


async def _offered(call: Call, invitation_id: str) -> person.Offered:
    """Find the invitation for the caller. Raises InvitationNotFound."""
    found = await person.find_offered(call.services.store, invitation_id, call.user_id)
    if found is None:
        raise no_invitation()
    return found


ENDPOINTS = [list_members, invite_member, remove_member, revoke_invitation, get_invitation, accept_invitation]
