"""Who a request comes from, decided at the door (R-AUTH, G-021, G-025 to G-027)."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from projections.accounts import KEY_USES, PEOPLE
from projections.credentials import CREDENTIAL_USES
from service.accounts import membership as admin
from service.auth import secrets
from service.auth.authenticator import Authenticator
from service.auth.authority import ANONYMOUS, PrincipalKind
from service.auth.refusals import NotFound, OwnerRequired, PrincipalNotAllowed, ScopeMissing, Unauthenticated
from service.auth.secrets import Dsn, SecretKind
from service.eventstore.declare.commands import Answer, Command, Origin
from service.eventstore.store import EventStore
from service.http.declare.endpoint import Docs, Fencing, Group, Operation, Who
from service.ids import new_id
from statemachines.credentials import credential as credentials
from statemachines.projects import project
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound
from tests.support.accounts_store import make_project

INTERNAL, TEST = "internal-" + "i" * 40, "test-" + "t" * 40
KIND = PrincipalKind


def operation(*kinds: PrincipalKind, path: str = "/v1/x", mutation: bool = True, **more: Any) -> Operation:
    return Operation(
        method="POST",
        path=path,
        operation_id="x",
        summary="x",
        common=Group(name="x"),
        who=Who(frozenset(kinds), **more),
        docs=Docs(None),
        fencing=Fencing(mutation=mutation),
    )


def authenticator(store: EventStore, **tokens: str | None) -> Authenticator:
    settings = {"internal_token": INTERNAL, "test_token": TEST, **tokens}
    return Authenticator(SimpleNamespace(**settings), store)  # type: ignore[arg-type]


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


async def execute(store: EventStore, stream, decide, **more: Any) -> None:
    def unit_of(unit):
        unit.append(stream, decide(unit))
        return Answer(204, None)

    origin = Origin("system", "test", "x", new_id("req"))
    await store.execute(Command(origin=origin, decide=unit_of, streams=[stream], **more))


async def make_credential(store: EventStore, project_id: str, kind: str, lifetime: int = 600) -> tuple[str, str]:
    """Make a credential; returns id and secret."""
    stream = credentials.stream(project_id, new_id("cred"))
    secret = secrets.make(SecretKind.RUNNER if kind == credentials.RUNNER else SecretKind.CI)
    wish = credentials.CredentialWish(kind, "x", "nightly" if kind == credentials.RUNNER else None, lifetime)
    minted = credentials.Minted(secret.hash, secret.prefix, "runner_1" if kind == credentials.RUNNER else None)
    await execute(
        store,
        stream,
        lambda unit: credentials.decide_create(
            unit.state(stream), wish, minted, unit.now, created_by="usr_1", request="r"
        ),
    )
    return stream.id, secret.text


async def rotate(store: EventStore, project_id: str, *, public: bool = False) -> str:
    """Rotate a project's DSN, or the public one; returns the new key."""
    stream, secret = project.stream(project_id), secrets.make(SecretKind.PUBLIC_DSN if public else SecretKind.DSN)
    decide = project.decide_rotate_public if public else project.decide_rotate
    await execute(store, stream, lambda unit: decide(unit.state(stream), secret.hash, secret.prefix, unit.now))
    return secret.text


async def test_a_request_counts_for_the_account_behind_it(accounts):
    """What is scarce is served by it in turn: a project's secrets give its account no further turns (P27)."""
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    project_id = await make_project(accounts, ann.user_id)
    _, ci = await make_credential(accounts, project_id, credentials.CI)
    _, runner = await make_credential(accounts, project_id, credentials.RUNNER)
    everyone = operation(*set(KIND) - {KIND.ANONYMOUS})
    secrets_of_ann = (ann.api_key, ci, runner, await rotate(accounts, project_id))
    tenants = [(await door.authenticate(everyone, bearer(secret), {})).tenant for secret in (*secrets_of_ann, INTERNAL)]
    assert tenants == [ann.user_id] * 4 + ["internal"]


async def test_every_kind_comes_from_the_stored_record(accounts):
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    project_id = await make_project(accounts, ann.user_id)
    ci_id, ci = await make_credential(accounts, project_id, credentials.CI)
    runner_id, runner = await make_credential(accounts, project_id, credentials.RUNNER)
    dsn = await rotate(accounts, project_id)
    everyone = operation(*set(KIND) - {KIND.ANONYMOUS})
    for secret, kind, name in (
        (ann.api_key, KIND.KEY, ann.key_id),
        (ci, KIND.CI, ci_id),
        (runner, KIND.RUNNER, runner_id),
        (dsn, KIND.DSN, project_id),
        (INTERNAL, KIND.INTERNAL, "internal"),
        (TEST, KIND.TEST, "test"),
    ):
        for again in range(2):
            principal = await door.authenticate(everyone, bearer(secret), {})
            assert (principal.kind, principal.id) == (kind, name), again
        # R-AUTH-12: every other kind of route refuses it, as a credential that is valid and of the wrong kind.
        with pytest.raises(PrincipalNotAllowed):
            await door.authenticate(operation(*set(KIND) - {KIND.ANONYMOUS, kind}), bearer(secret), {})
        assert await door.authenticate(operation(KIND.ANONYMOUS), bearer(secret), {}) is ANONYMOUS
    runner_principal = await door.authenticate(everyone, bearer(runner), {})
    assert runner_principal.automation_id == "nightly"
    assert runner_principal.runner_id == "runner_1"
    assert runner_principal.scopes == set(credentials.SCOPES[credentials.RUNNER])
    await door.authenticate(operation(KIND.RUNNER, scope="runs:write"), bearer(runner), {})
    with pytest.raises(ScopeMissing):
        await door.authenticate(operation(KIND.RUNNER, scope="deploys:write"), bearer(runner), {})


async def test_all_bad_secrets_look_the_same(accounts):
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    project_id = await make_project(accounts, ann.user_id)
    _, expired = await make_credential(accounts, project_id, credentials.CI, lifetime=0)
    await admin.revoke_key(accounts, ann.key_id)
    wrong_checksum = ann.api_key[:-1] + ("a" if ann.api_key[-1] != "a" else "b")
    refusals = set()
    for headers in (
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": f"Basic {ann.api_key}"},
        bearer(ann.api_key),
        bearer(expired),
        bearer(wrong_checksum),
        bearer(secrets.make(SecretKind.KEY).text),
        bearer(secrets.make(SecretKind.RUNNER).text),
        bearer(secrets.make(SecretKind.DSN).text),
        bearer(secrets.make(SecretKind.DEVICE).text),
        bearer(INTERNAL + "x"),
        bearer("x" * 5000),
        bearer("\xe9\udc80"),
    ):
        with pytest.raises(Unauthenticated) as refused:
            await door.authenticate(operation(*set(KIND) - {KIND.ANONYMOUS}), headers, {})
        refusals.add((str(refused.value), refused.value.next_action, str(refused.value.details)))
    assert len(refusals) == 1


async def test_operator_tokens_that_are_not_configured(accounts):
    door = authenticator(accounts, internal_token=None, test_token=None)
    for token in (INTERNAL, TEST, "None", ""):
        with pytest.raises(Unauthenticated):
            await door.authenticate(operation(KIND.INTERNAL), bearer(token), {})
        with pytest.raises(NotFound):
            await door.authenticate(operation(KIND.TEST), bearer(token), {})
    with pytest.raises(NotFound):
        await door.authenticate(operation(KIND.TEST), {}, {})
    with pytest.raises(PrincipalNotAllowed):
        await authenticator(accounts).authenticate(operation(KIND.TEST), bearer(INTERNAL), {})


async def test_a_dsn_in_every_place_and_two_that_differ(accounts):
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    mine, other = await make_project(accounts, ann.user_id), await make_project(accounts, ann.user_id)
    key, other_key = await rotate(accounts, mine), await rotate(accounts, other)
    dsn, other_dsn = (secrets.make_dsn("https://h.example", k, p) for k, p in ((key, mine), (other_key, other)))
    older = f"https://{key}@h.example/{mine}"
    logs = operation(KIND.DSN, path="/v1/logs/")
    for headers, query in (
        (bearer(dsn), {}),
        (bearer(key), {}),
        ({"x-service-dsn": dsn}, {}),
        ({"x-service-dsn": key}, {}),
        ({}, {"dsn": [dsn]}),
        ({}, {"dsn": dsn}),
        ({}, {"dsn": [key]}),
        ({**bearer(dsn), "x-service-dsn": key}, {"dsn": [dsn]}),
        (bearer(older), {}),
        ({"x-service-dsn": older}, {}),
        ({}, {"dsn": [older]}),
        ({**bearer(older), "x-service-dsn": dsn}, {"dsn": [key]}),
    ):
        principal = await door.authenticate(logs, headers, query)
        assert (principal.kind, principal.project_id) == (KIND.DSN, mine)
    strayed = secrets.make_dsn("https://h.example", key, other)
    for headers, query in (
        ({**bearer(dsn), "x-service-dsn": other_dsn}, {}),
        (bearer(dsn), {"dsn": [other_dsn]}),
        ({}, {"dsn": [dsn, other_dsn]}),
        ({}, {"dsn": []}),
        (bearer(strayed), {}),
        ({**bearer(key), "x-service-dsn": strayed}, {}),
        ({**bearer(dsn), "x-service-dsn": strayed}, {}),
        ({**bearer(older), "x-service-dsn": strayed}, {}),
        (bearer(f"https://{key}@h.example/{other}"), {}),
        (bearer(secrets.make_dsn("https://h.example", key, "proj_nothing")), {}),
    ):
        with pytest.raises(Unauthenticated):
            await door.authenticate(logs, headers, query)
    # Query strings end up in logs: only the three routes for browsers read them.
    with pytest.raises(Unauthenticated):
        await door.authenticate(operation(KIND.DSN, path="/v1/deploys/"), {}, {"dsn": [dsn]})
    # Off the ingest routes a DSN beside a key says nothing; alone it is a credential of the wrong kind.
    assert (
        await door.authenticate(operation(KIND.KEY), {**bearer(ann.api_key), "x-service-dsn": dsn}, {})
    ).kind is KIND.KEY
    with pytest.raises(PrincipalNotAllowed):
        await door.authenticate(operation(KIND.KEY), {"x-service-dsn": dsn}, {})


async def test_a_place_of_dsns_takes_nothing_else(accounts):
    """Keys, credentials and operator tokens travel as Bearer, wherever else they are good (G-138)."""
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    ci = secrets.make(SecretKind.CI).text
    for secret in (ann.api_key, ci, secrets.make(SecretKind.RUNNER).text, INTERNAL, TEST, "", "service_dsn_x"):
        for kind in KIND:
            if kind is KIND.ANONYMOUS:
                continue
            with pytest.raises(Unauthenticated, match=r"x-service-dsn accepts a DSN only"):
                await door.authenticate(operation(kind), {"x-service-dsn": secret}, {})
        with pytest.raises(Unauthenticated, match=r"x-service-dsn accepts a DSN only"):
            await door.authenticate(operation(KIND.KEY), {**bearer(ann.api_key), "x-service-dsn": secret}, {})
        with pytest.raises(Unauthenticated, match=r"parameter dsn accepts a DSN only"):
            await door.authenticate(operation(KIND.DSN, path="/v1/logs/"), {}, {"dsn": [secret]})


@pytest.mark.parametrize(
    ("kinds", "action"),
    [
        ([KIND.KEY], "Send an API key as Authorization: Bearer; one value only."),
        ([KIND.KEY, KIND.RUNNER], "Send an API key or a runner credential as Authorization: Bearer; one value only."),
        ([KIND.DSN], "Send the project's DSN as Authorization: Bearer, or as x-service-dsn; one value only."),
        (
            [KIND.DSN, KIND.CI],
            (
                "Send the project's DSN or a CI credential as Authorization: Bearer, or the DSN as x-service-dsn; "
                "one value only."
            ),
        ),
    ],
)
async def test_a_refusal_names_the_header_that_the_route_takes(accounts, kinds, action):
    """Also for what is unknown; two values that differ are called so, and nothing that was sent is repeated."""
    door = authenticator(accounts)
    one, two = secrets.make(SecretKind.DSN).text, secrets.make(SecretKind.DSN).text
    differ = "The request carries two credentials that differ."
    route = operation(*kinds, path="/v1/logs/")
    cases = [({}, {}, ""), (bearer(one), {}, ""), (bearer(one), {"dsn": [two]}, differ)]
    if KIND.DSN in kinds:
        cases.append(({**bearer(one), "x-service-dsn": two}, {}, differ))
    for headers, query, message in cases:
        with pytest.raises(Unauthenticated) as caught:
            await door.authenticate(route, headers, query)
        assert (str(caught.value), caught.value.next_action) == (message, action)


async def test_what_is_remembered_never_serves_a_read_and_is_short_for_writes(accounts, monkeypatch):
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    write, read = operation(KIND.KEY), operation(KIND.KEY, mutation=False)
    now = 1_000.0
    monkeypatch.setattr("service.auth.authenticator.time.monotonic", lambda: now)
    await door.authenticate(write, bearer(ann.api_key), {})
    await admin.revoke_key(accounts, ann.key_id)
    assert (await door.authenticate(write, bearer(ann.api_key), {})).id == ann.key_id  # its command asks again
    with pytest.raises(Unauthenticated):  # a refusal looks again: not "of the wrong kind"
        await door.authenticate(operation(KIND.CI), bearer(ann.api_key), {})
    assert (await door.authenticate(write, bearer(ann.api_key), {})).id == ann.key_id
    with pytest.raises(Unauthenticated):
        await door.authenticate(read, bearer(ann.api_key), {})
    now = 1_001.0
    with pytest.raises(Unauthenticated):
        await door.authenticate(write, bearer(ann.api_key), {})


async def test_forgetting_is_at_once_and_the_memory_is_bounded(accounts, monkeypatch):
    monkeypatch.setattr("service.auth.authenticator.CACHE_SIZE", 2)
    door = authenticator(accounts)
    keys = [await admin.create_key(accounts, admin.email_identity("ann@example.com")) for _ in range(5)]
    for key in keys:
        await door.authenticate(operation(KIND.KEY), bearer(key.api_key), {})
        assert len(door._known) <= 2
    await admin.revoke_key(accounts, keys[-1].key_id)
    door.forget()
    with pytest.raises(Unauthenticated):
        await door.authenticate(operation(KIND.KEY), bearer(keys[-1].api_key), {})


async def test_standing_in_a_project(accounts):
    door = authenticator(accounts)
    ann, bob, joe, eve = [
        await admin.create_key(accounts, admin.email_identity(f"{name}@example.com"))
        for name in ("ann", "bob", "joe", "eve")
    ]
    mine, other = await make_project(accounts, ann.user_id), await make_project(accounts, eve.user_id)
    await admin.set_member(accounts, mine, bob.user_id, admin.Role.MEMBER)
    await admin.set_member(accounts, mine, joe.user_id, admin.Role.AUDITOR)
    _, ci = await make_credential(accounts, mine, credentials.CI)
    dsn = await rotate(accounts, mine)
    everyone = operation(*set(KIND) - {KIND.ANONYMOUS})
    principals = [
        await door.authenticate(everyone, bearer(s), {}) for s in (ann.api_key, bob.api_key, joe.api_key, ci, dsn)
    ]
    roles = [admin.Role.OWNER, admin.Role.MEMBER, admin.Role.AUDITOR, None, None]
    assert [(await door.standing(principal, mine)).role for principal in principals] == roles
    for principal in principals:
        refusals = set()
        for project_id in (other, new_id("proj")):
            with pytest.raises(ProjectNotFound) as refused:
                await door.standing(principal, project_id)
            refusals.add((str(refused.value), str(refused.value.details)))
        assert len(refusals) == 1  # another's project is like none
    stream = project.stream(mine)
    await execute(accounts, stream, lambda unit: project.decide_fence(unit.state(stream), "del_1", unit.now))
    assert [(await door.standing(p, mine)) for p in principals] == [(role, True) for role in roles]
    await execute(accounts, stream, lambda unit: project.decide_purge(unit.state(stream), unit.now))
    for principal in principals:
        with pytest.raises(ProjectNotFound):
            await door.standing(principal, mine)


async def test_a_projects_own_secret_and_its_standing_are_found_by_one_look(accounts, monkeypatch):
    """Each look is a statement before the command of every runner and CI; a fence is still seen by the next request."""
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    project_id = await make_project(accounts, ann.user_id)
    _, ci = await make_credential(accounts, project_id, credentials.CI)
    dsn = await rotate(accounts, project_id)
    looks: list[str] = []
    fetch = accounts.doors.fetch

    async def counted(query: str, **values: Any) -> Any:
        looks.append(query)
        return await fetch(query, **values)

    monkeypatch.setattr(accounts.doors, "fetch", counted)
    read = operation(*set(KIND) - {KIND.ANONYMOUS})

    async def enter(secret: str, *, remembered: bool) -> int:
        looks.clear()
        found = await door.authenticate(read, bearer(secret), {})
        await door.admit(found, project_id, read, remembered=remembered, as_found=True)
        return len(looks)

    door.forget()
    assert [await enter(secret, remembered=True) for secret in (ci, dsn, ci, dsn)] == [1, 1, 0, 0]
    door.forget()
    stream = project.stream(project_id)
    await execute(accounts, stream, lambda unit: project.decide_fence(unit.state(stream), "del_1", unit.now))
    for secret in (ci, dsn):
        with pytest.raises(ProjectDeletionInProgress):
            await enter(secret, remembered=True)


async def test_visibility_comes_before_the_role_and_the_role_before_the_fence(accounts):
    door = authenticator(accounts)
    ann, bob, eve = [
        await admin.create_key(accounts, admin.email_identity(f"{name}@example.com")) for name in ("ann", "bob", "eve")
    ]
    mine = await make_project(accounts, ann.user_id)
    await admin.set_member(accounts, mine, bob.user_id, admin.Role.MEMBER)
    dsn = await rotate(accounts, mine)
    everyone = operation(*set(KIND) - {KIND.ANONYMOUS})
    owner, member, stranger, sender = [
        await door.authenticate(everyone, bearer(s), {}) for s in (ann.api_key, bob.api_key, eve.api_key, dsn)
    ]
    writes, owners = operation(KIND.KEY, KIND.DSN), operation(KIND.KEY, KIND.DSN, owner=True)
    reads = operation(KIND.KEY, KIND.DSN, mutation=False)
    for who, what in ((owner, owners), (member, writes), (sender, owners)):
        await door.admit(who, mine, what)
    with pytest.raises(OwnerRequired):
        await door.admit(member, mine, owners)
    stream = project.stream(mine)
    await execute(accounts, stream, lambda unit: project.decide_fence(unit.state(stream), "del_1", unit.now))
    for who, what, refusal in (
        (stranger, owners, ProjectNotFound),
        (member, owners, OwnerRequired),
        (member, writes, ProjectDeletionInProgress),
        (owner, owners, ProjectDeletionInProgress),
        (sender, reads, ProjectDeletionInProgress),
    ):
        with pytest.raises(refusal):
            await door.admit(who, mine, what)
    await door.admit(member, mine, reads)  # people see a project until it is gone (G-131)


async def test_the_time_of_use_is_written_in_the_background(accounts):
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    project_id = await make_project(accounts, ann.user_id)
    ci_id, ci = await make_credential(accounts, project_id, credentials.CI)
    await door.authenticate(operation(KIND.KEY), bearer(ann.api_key), {})
    await door.authenticate(operation(KIND.CI), bearer(ci), {})
    assert await accounts.get(KEY_USES, ann.user_id, ann.key_id) is None
    before = await accounts.now()
    door.start()
    await door.uses.flush()
    first = await accounts.get(KEY_USES, ann.user_id, ann.key_id)
    assert first is not None
    assert before <= first.last_used_at <= before + 5
    assert (await accounts.get(CREDENTIAL_USES, project_id, ci_id)) is not None
    await door.authenticate(operation(KIND.KEY), bearer(ann.api_key), {})
    await door.stop()
    assert await accounts.get(KEY_USES, ann.user_id, ann.key_id) == first  # once a minute at most


async def test_a_use_of_nothing_is_not_written_and_a_lost_database_costs_nothing(accounts):
    door = authenticator(accounts)
    door.uses.note(KEY_USES, "usr_nobody", "key_nothing")
    await door.uses.flush()
    assert await accounts.get(KEY_USES, "usr_nobody", "key_nothing") is None
    assert await accounts.get(PEOPLE, "usr_nobody", "usr_nobody") is None
    door.uses._store = SimpleNamespace(conninfo="postgresql://127.0.0.1:1/none")
    await door.uses._connection.close()
    door.uses.note(KEY_USES, "usr_nobody", "key_nothing")
    await door.uses.flush()
    await door.stop()


async def test_a_secret_is_recalled_while_it_is_somebodys(accounts):
    """By that alone a request has a turn of its own before its secret is looked up (G-204)."""
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    shown, made_up = Dsn(ann.api_key, None), Dsn(secrets.make(SecretKind.KEY).text, None)
    assert not door.recalls(shown)
    await door.authenticate(operation(KIND.KEY, mutation=False), bearer(ann.api_key), {})
    with pytest.raises(Unauthenticated):
        await door.authenticate(operation(KIND.KEY, mutation=False), bearer(made_up.key), {})
    assert (door.recalls(shown), door.recalls(made_up)) == (True, False)
    await admin.revoke_key(accounts, ann.key_id)
    with pytest.raises(Unauthenticated):
        await door.authenticate(operation(KIND.KEY, mutation=False), bearer(ann.api_key), {})
    assert not door.recalls(shown)


async def test_callers_with_one_secret_share_its_look_ups(accounts, monkeypatch):
    """Many requests of one key come at once: two looks at it, however many wait, and none from before a request."""
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    project_id = await make_project(accounts, ann.user_id)
    looks: list[str] = []
    find, fetch = accounts.doors.find, accounts.doors.fetch

    async def found(*names: Any, **more: Any) -> Any:
        looks.append("key")
        return await find(*names, **more)

    async def fetched(*names: Any, **more: Any) -> Any:
        looks.append("read")  # also of a key
        return await fetch(*names, **more)

    monkeypatch.setattr(accounts.doors, "find", found)
    monkeypatch.setattr(accounts.doors, "fetch", fetched)

    async def enter(*, mutation: bool) -> None:
        route = operation(KIND.KEY, mutation=mutation)
        principal = await door.authenticate(route, bearer(ann.api_key), {})
        await door.admit(principal, project_id, route, remembered=mutation)

    for mutation in (False, True):
        door.forget()
        looks.clear()
        await asyncio.gather(*(enter(mutation=mutation) for _ in range(40)))
        # Of the standing, one for who was let in first, and two for the others.
        assert Counter(looks) <= Counter(key=2, read=2 + 3)
    await admin.revoke_key(accounts, ann.key_id)
    refused = await asyncio.gather(*(enter(mutation=False) for _ in range(40)), return_exceptions=True)
    assert {type(one) for one in refused} == {Unauthenticated}


async def test_what_is_remembered_is_renewed_before_its_end(accounts, monkeypatch):
    """By a look that no request waits for; what has ended is refused within a second as before."""
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    now = 1_000.0
    monkeypatch.setattr("service.auth.authenticator.time.monotonic", lambda: now)
    write = operation(KIND.KEY)
    await door.authenticate(write, bearer(ann.api_key), {})
    now = 1_000.4
    await door.authenticate(write, bearer(ann.api_key), {})
    assert not door._principals._waiting
    for now in (1_000.6, 1_001.2):  # noqa: B007 - the clock tells it
        await door.authenticate(write, bearer(ann.api_key), {})
        [ahead] = door._principals._waiting.values()
        assert (await ahead).id == ann.key_id
    await admin.revoke_key(accounts, ann.key_id)
    now = 1_001.8
    assert (await door.authenticate(write, bearer(ann.api_key), {})).id == ann.key_id
    [ahead] = door._principals._waiting.values()
    with pytest.raises(Unauthenticated):
        await ahead
    now = 1_002.2  # a second after the last look that found it
    with pytest.raises(Unauthenticated):
        await door.authenticate(write, bearer(ann.api_key), {})


async def test_a_look_from_before_the_end_of_a_secret_is_not_remembered(accounts, monkeypatch):
    """It was under way when this process forgot everything."""
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    find, begun, goes_on = accounts.doors.find, asyncio.Event(), asyncio.Event()

    async def slow(*names: Any, **more: Any) -> Any:
        found = await find(*names, **more)
        begun.set()
        await goes_on.wait()
        return found

    monkeypatch.setattr(accounts.doors, "find", slow)
    asked = asyncio.create_task(door.authenticate(operation(KIND.KEY), bearer(ann.api_key), {}))
    await begun.wait()
    await admin.revoke_key(accounts, ann.key_id)
    door.forget()
    goes_on.set()
    assert (await asked).id == ann.key_id
    with pytest.raises(Unauthenticated):
        await door.authenticate(operation(KIND.KEY), bearer(ann.api_key), {})
