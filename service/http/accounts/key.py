"""A person's own API keys: listed, and ended by the person they belong to (G-027; extensions of the document)."""

from __future__ import annotations

from projections.accounts.key import KEY_USES, KeyRow
from projections.accounts.key import PROJECTION as KEYS
from schemas.accounts.key import KeyItem, KeyList, KeyRevokedBody, RevokeKey
from schemas.kernel.paging import PageQuery
from service.eventstore.commands import Answer, Lookup, Outcome, Unit
from service.eventstore.pages import Place
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import KEY
from service.http.edge.paging import page, start_of
from statemachines.accounts import key

_LIST = (
    "select t.id, t.key_prefix, t.created_at, u.last_used_at, t.revoked_at "
    "from api_keys t left join key_uses u using (project_id, id) "
    "where t.project_id = %s and (t.created_at, t.id) < (%s, %s) order by t.created_at desc, t.id desc limit %s"
)


@groups.AUTH.operation(
    method="GET",
    path="/v1/keys",
    operation_id="list_keys",
    summary="List one's own API keys",
    principals=KEY,
    responses={200: KeyList},
    extension=True,
)
async def list_keys(call: Call[None, PageQuery]) -> Answer:
    """List the caller's keys, live and revoked, newest first."""
    start = start_of(call.query)
    await call.services.authenticator.uses.flush()  # so that the use by this very request shows
    rows = await call.services.store.fetch(_LIST, call.principal.user_id, start.at, start.id, call.query.limit + 1)
    items = [
        KeyItem(id=id_, key_prefix=prefix, created_at=created, last_used_at=used, revoked_at=revoked)
        for id_, prefix, created, used, revoked in rows
    ]
    shown, cursor = page(items, call.query, lambda item: Place(item.created_at, item.id))
    return Answer(
        200,
        KeyList(
            keys=shown,
            count=len(shown),
            next_cursor=cursor,
            next_action="Revoke a key that leaked or is no longer needed with POST /v1/keys/{key_id}/revoke.",
        ),
    )


@groups.AUTH.operation(
    method="POST",
    path="/v1/keys/{key_id}/revoke",
    operation_id="revoke_key",
    summary="End one of one's own API keys",
    principals=KEY,
    responses={200: KeyRevokedBody},
    idempotency="optional",
    extension=True,
    errors=("not_found",),
)
async def revoke_key(call: Call[RevokeKey, None]) -> Outcome:
    """End a key; from the answer on nothing that rests on it commits."""
    user_id = call.principal.user_id
    assert user_id is not None
    stream = key.stream(user_id, call.path["key_id"])

    def decide(unit: Unit) -> Answer:
        unit.append(stream, key.decide_revoke(unit.state(stream), unit.now))
        row = unit.row(KEYS.table, *stream.name)
        used = unit.row(KEY_USES, *stream.name)
        assert row is not None
        return Answer(200, _revoked(row, used.last_used_at if used else None))

    outcome = await call.execute(decide, streams=[stream], lookups=[Lookup(KEY_USES, *stream.name)], fence=user_id)
    call.services.authenticator.forget()
    return outcome


def _revoked(row: KeyRow, last_used_at: int | None) -> KeyRevokedBody:
    return KeyRevokedBody(
        id=row.id,
        key_prefix=row.key_prefix,
        created_at=row.created_at,
        last_used_at=last_used_at,
        revoked_at=row.revoked_at,
        next_action="Remove the key from wherever it was kept; sign in again for a new one.",
    )


ENDPOINTS = [list_keys, revoke_key]
