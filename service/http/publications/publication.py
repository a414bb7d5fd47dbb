"""Public queries at the edge: publish, list, revoke, and the open address (R-PUB-01 to R-PUB-04, G-093, G-163)."""

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from urllib.parse import parse_qsl

from litestar.params import FromPath, JSONBody

from schemas import publications as wire
from schemas.kernel.published import body_schema
from service import publications
from service.analytics.blueprints.asking import CATALOGUE, ask_for
from service.auth.refusals import InvalidPayload, refusal
from service.auth.secrets import digest, equal
from service.eventstore.declare.commands import Answer, Outcome
from service.fairness.turns import PUBLIC_QUERIES
from service.http.body.validation import text_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.headers import head_of, matches_tag
from service.http.declare.operations import ANYONE, KEY
from statemachines.kernel.canonical import canonical
from statemachines.publications import PublicationWish

PRIVATE = frozenset({"breakdown", "top-errors", "deploy-recurrence"})
"""Blueprints with texts or ids of people and cases in their rows, none of them publishable (G-163)."""
KEY_PARAMETER = "key"
_BEARER = "bearer"
_REVALIDATED = "no-cache"


@groups.PUBLIC_QUERIES.post(
    "/v1/projects/{project_id}/public-queries", "Publish a blueprint query under a public address"
)
@Who(KEY, fresh=True)
@Fencing(idempotency="optional")
@Docs({201: wire.PublicationCreated})
async def create_public_query(call: Call, data: JSONBody[wire.PublishQuery]) -> Outcome:
    """Publish a query with its parameters as they are now. This answer alone shows its key."""
    base_url = call.services.settings.base_url
    return await call.carry_out(publications.publish(call.project_id, _wish(data)), partial(_created, base_url))


def _wish(body: wire.PublishQuery) -> PublicationWish:
    """Check blueprint and parameters. Raises InvalidPayload."""
    schema = body_schema(wire.PublishQuery)
    if body.blueprint_id in PRIVATE or body.blueprint_id not in CATALOGUE:
        raise InvalidPayload(
            "This blueprint cannot be published.",
            invalid=[("blueprint_id", "must be the id of a publishable query blueprint")],
            schema=schema,
        )
    asked = ask_for(body.blueprint_id, body.params, schema=schema)
    params = canonical(asked.effective).decode()
    return PublicationWish(asked.blueprint.id, params, text_of(body.title), body.cache_seconds)


def _created(base_url: str, made: publications.Published) -> Answer:
    return Answer(
        HTTPStatus.CREATED,
        publications.created(made.row, base_url, made.key),
        stored=publications.created(made.row, base_url, None),
    )


@groups.PUBLIC_QUERIES.get("/v1/projects/{project_id}/public-queries", "List a project's published queries")
@Who(KEY)
@Docs(wire.PublicationList, extension=True)
async def list_public_queries(call: Call) -> Answer:
    """List the published queries of a project, newest first."""
    rows = await publications.published_in(call.services.store, call.project_id)
    return Answer(HTTPStatus.OK, publications.listed(call.project_id, rows, call.services.settings.base_url))


@groups.PUBLIC_QUERIES.delete("/v1/projects/{project_id}/public-queries/{publication_id}", "Revoke a published query")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.PublicationRevoked, errors=("publication_not_found",))
async def delete_public_query(call: Call, publication_id: FromPath[str]) -> Outcome:
    """Revoke a publication. From the answer on no process serves it."""
    intent = publications.revoke(call.project_id, publication_id)
    return await call.carry_out(intent, lambda row: Answer(HTTPStatus.OK, publications.revoked(row)))


@groups.PUBLIC_QUERIES.get("/v1/public/q/{publication_id}", "Read the rows of a published query")
@Who(ANYONE, place=PUBLIC_QUERIES)
@Body(reads_query=True, shown_query=wire.PublicQuery)
@Fencing(rate="public_query")
@Docs(
    {200: wire.PublicAnswer, 304: None},
    errors=("invalid_publishable_key", "publication_not_found", "upstream_error", "upstream_timeout"),
)
async def run_public_query(call: Call, publication_id: FromPath[str]) -> Outcome:
    """Show the rows to anybody, or 304 for a current copy. A key may be absent, but not wrong (R-PUB-03)."""
    answers = call.services.public_answers
    standing = await answers.find(publication_id)
    _check_keys(call, standing.key_hash)
    answer = await answers.answer(publication_id, standing)
    headers = {"etag": answer.etag, "cache-control": _REVALIDATED}
    if matches_tag(call.header("if-none-match"), answer.etag):
        return Outcome(HTTPStatus.NOT_MODIFIED, b"", headers)
    return Outcome(HTTPStatus.OK, answer.body, headers)


def _check_keys(call: Call, key_hash: str) -> None:
    """Refuse every key or Bearer but that of the publication. Raises a refusal of `invalid_publishable_key`."""
    repeated = "authorization" in head_of(call.scope).repeated
    if repeated or not all(equal(digest(key), key_hash) for key in _keys_of(call)):
        raise refusal("invalid_publishable_key")


def _keys_of(call: Call) -> Iterator[str]:
    """The keys that a request shows, each as often as it does, empty ones included."""
    words = (call.header("authorization") or "").split(maxsplit=1)
    if words and words[0].lower() == _BEARER:
        yield words[1].rstrip() if words[1:] else ""
    query = call.scope["query_string"].decode("latin-1")
    for name, value in parse_qsl(query, keep_blank_values=True, errors="replace"):
        if name == KEY_PARAMETER:
            yield value


ENDPOINTS = [create_public_query, list_public_queries, delete_public_query, run_public_query]
