"""A person's own pages and those of a team: sign-ins, devices, sessions, settings, members and credentials."""

from collections.abc import Mapping
from urllib.parse import urlencode

from service.accounts import person, sign_in
from service.auth.secrets import set_cookie, unset_cookie
from service.console.kit import visit as visits
from service.console.kit.page import Fields, FormProblem, Redirect, View, first, form, page
from service.console.kit.visit import Json, Visit, carry_out_unstored, local, together
from service.eventstore.declare.commands import Answer
from service.http.accounts.session import code_of

# Signing in once more, where the last sign-in is over 15 minutes ago.

MOST_LINK = 2_000
"""Characters of a link, as it may be pasted with its address."""


@page("again")
async def show_again(visit: Visit) -> View:
    """Ask for another sign-in, at the issuer or by a link of the operator."""
    after, issuer = local(visit.query.get("next", "")), visit.call.services.issuer
    address = f"/console/oidc?{urlencode({'again': '1', 'next': after})}"
    elsewhere = None if issuer is None else (issuer.label, address)
    return View("account/again.html", "Sign in again", {"next": after, "elsewhere": elsewhere})


@form("again")
async def sign_in_again(visit: Visit, fields: Fields) -> Redirect:
    """Use a link of the same person. The browser gets a new secret. Raises LinkOver and SessionNotFound."""
    call, link = visit.call, secret_of(first(fields, "link"))
    intent = await sign_in.authenticate_by_link(call.services.store, call.user_id, call.principal.id, link)
    renewed = await carry_out_unstored(call, intent)
    call.services.authenticator.forget()
    cookie = set_cookie(call.services.settings.base_url, renewed.secret)
    return Redirect(local(first(fields, "_next")), headers={"set-cookie": cookie})


def secret_of(link: str) -> str:
    """The secret in a link, pasted with or without its address."""
    return link[:MOST_LINK].rpartition("token=")[2].strip()


# The sign-in of a device, confirmed or refused by its person (G-020).

SETTLED = frozenset({"confirmed", "refused"})


@page("device")
async def show_device(visit: Visit) -> View:
    """Show the device of a code, or ask for the code."""
    code, store = code_of(visit.query.get("user_code")), visit.call.services.store
    found = None if code is None else await person.pending_sign_in(store, code)
    settled = visit.query.get("settled", "")
    facts = {
        "code": code,
        "found": found,
        "asked": visit.query.get("user_code", ""),
        "settled": settled if settled in SETTLED else "",
    }
    return View("account/device.html", "Sign in a device", facts)


@form("device")
async def settle_device(visit: Visit, fields: Fields) -> Redirect:
    """Confirm the code, and the device gets a key of the person. Or refuse it.

    Raises UserCodeNotFound, AccountDeletionInProgress, and ReauthenticationRequired for a confirmation.
    """
    call, code = visit.call, first(fields, "user_code")
    salt = call.services.store.installation_salt
    if first(fields, "decision") != "confirm":
        await call.carry_out(sign_in.deny(salt, code), lambda _: Answer(204, None))
        return Redirect("device?settled=refused")
    call.ask_fresh()
    await call.carry_out(sign_in.authorize_as(salt, code, call.user_id), lambda _: Answer(204, None))
    return Redirect("device?settled=confirmed")


# The open sessions of a person, and the end of this one.


@page("sessions")
async def show_sessions(visit: Visit) -> View:
    """Show the open sessions."""
    found = await visit.read("list_sessions", query={"cursor": visit.query.get("cursor"), "limit": 50})
    return View("person/sessions.html", "Sessions", {"found": found})


@form("leave")
async def leave(visit: Visit, _: Fields) -> View | Redirect:
    """End the session of this browser. Raises FormProblem."""
    said = await visit.ask("end_session", {"session_id": visit.call.principal.id})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    return Redirect("enter", headers={"set-cookie": unset_cookie(visit.call.services.settings.base_url)})


# Settings of a person: how the console looks, the keys, and the end of the account.

KEYS = 50
MADE_HERE = "The console"
"""The name of the device whose key is made in Settings."""


@page("settings")
async def show_settings(visit: Visit) -> View:
    """Show the settings, with a page of keys."""
    keys = await visit.read("list_keys", query={"cursor": visit.query.get("cursor"), "limit": KEYS})
    facts = {"keys": keys, "zones": visits.zones(), "saved": visit.preferences}
    return View("person/settings.html", "Settings", facts)


@form("preferences")
async def save_preferences(visit: Visit, fields: Fields) -> Redirect:
    """Save the theme and the zone of times in a cookie. Raises FormProblem for an unknown one."""
    wanted = {name: first(fields, name) for name in ("theme", "zone") if first(fields, name)}
    for name, value in wanted.items():
        if not visits.is_known(name, value):
            raise FormProblem.of_field(name, "is none of those offered")
    secure = visit.call.services.settings.base_url.startswith("https:")
    cookie = visits.written(wanted, secure=secure)
    return Redirect(local(first(fields, "_next") or "settings"), "preferences", {"set-cookie": cookie})


@form("settings/keys")
async def make_key(visit: Visit, _: Fields) -> View:
    """Make a key as a device gets one: by a sign-in that its person confirms at once. It is shown once.

    Raises FormProblem, AccountDeletionInProgress and ReauthenticationRequired.
    """
    call = visit.call
    call.ask_fresh()
    started = await _asked(visit, "start_device", {"client_name": MADE_HERE})
    salt, user_code = call.services.store.installation_salt, started["user_code"]
    await call.carry_out(sign_in.authorize_as(salt, user_code, call.user_id), lambda _: Answer(204, None))
    made = await _asked(visit, "poll_device", {"device_code": started["device_code"]})
    shown = [("Key", made["api_key"]), ("Variable to keep it in", "SERVICE_API_KEY")]
    return View("kit/secret.html", "Keep this now", {"shown": shown, "after": "settings"})


async def _asked(visit: Visit, operation_id: str, body: Mapping[str, str]) -> Json:
    """The body of an answer. Raises FormProblem."""
    said = await visit.ask(operation_id, {}, body=body)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    found: Json = said.body
    return found


@form("settings/delete-account")
async def delete_account(visit: Visit, fields: Fields) -> View:
    """Begin the deletion of the account, or look how far it is. Raises FormProblem."""
    said = await visit.ask("delete_account", {}, body={"confirm": first(fields, "confirm")})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    return View("person/deleted.html", "Deletion of your account", {"found": said.body})


# The credentials of a project and its DSN.


@page("projects/{project_id}/credentials", section="credentials")
async def show_credentials(visit: Visit) -> View:
    """Show the credentials, a page of them, and the DSN to owners."""
    return await _shown(visit, None)


@form("projects/{project_id}/credentials/verify")
async def verify_dsn(visit: Visit, fields: Fields) -> View:
    """Say whether a text is the DSN of the project. Raises FormProblem."""
    said = await visit.ask("verify_dsn", visit.values, body={"dsn": first(fields, "dsn")})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    return await _shown(visit, said.body)


async def _shown(visit: Visit, verified: object) -> View:
    project_id = visit.values["project_id"]
    query = {"cursor": visit.query.get("cursor"), "limit": 50}
    found = await visit.read("list_credentials", project_id=project_id, query=query)
    dsn, control = await together([visit.try_read("read_dsn", project_id=project_id), visit.control(project_id)])
    contract = control["contract"] if control else None
    automations = [(one["automation_id"], one["name"]) for one in contract["automations"]] if contract else []
    url = f"{visit.call.services.settings.base_url}/v1/analytics/"
    facts = {"found": found, "dsn": dsn, "automations": automations, "verified": verified, "analytics_url": url}
    return View("team/credentials.html", "Credentials", facts, project_id)


@page("projects/{project_id}/ci-bindings", section="credentials")
async def show_ci_bindings(visit: Visit) -> View:
    """Show the workflows that may exchange tokens for credentials, and a page of what they exchanged."""
    project_id = visit.values["project_id"]
    query = {"exchanged": "true", "cursor": visit.query.get("cursor"), "limit": 50}
    found = await visit.read("list_ci_bindings", project_id=project_id)
    exchanged = await visit.read("list_credentials", project_id=project_id, query=query)
    facts = {"found": found, "exchanged": exchanged, "issuers": [(issuer, issuer) for issuer in found["issuers"]]}
    return View("team/bindings.html", "CI bindings", facts, project_id)


# The members of a project and the invitations to it.


@page("projects/{project_id}/members", section="members")
async def show_members(visit: Visit) -> View:
    """Show the members, a page of them."""
    project_id = visit.values["project_id"]
    query = {"cursor": visit.query.get("cursor"), "limit": 50}
    found = await visit.read("list_members", project_id=project_id, query=query)
    return View(
        "team/members.html", "Members", {"found": found, "base_url": visit.call.services.settings.base_url}, project_id
    )


@page("invitations/{invitation_id}")
async def show_invitation(visit: Visit) -> View:
    """Show an invitation to the person invited."""
    found = await visit.read("get_invitation", invitation_id=visit.values["invitation_id"])
    return View("team/invitation.html", "Invitation", {"found": found}, state={"Status": found["status"]})


PAGES = [
    show_again,
    show_device,
    show_sessions,
    show_settings,
    show_credentials,
    show_ci_bindings,
    show_members,
    show_invitation,
]
FORMS = [sign_in_again, settle_device, leave, save_preferences, make_key, delete_account, verify_dsn]
