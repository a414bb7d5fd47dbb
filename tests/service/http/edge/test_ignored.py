"""What a client misspells in a query is ignored, and told: counted, and named where a name cannot do harm (G-178)."""

from __future__ import annotations

import re

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.http.declare.bound import Bound, Ignored, find_ignored
from service.http.edge.routes import all_endpoints
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.server import ServerHandle

WRITTEN = re.compile(r'[0-9]+(;names="[a-z0-9_]{1,40}( [a-z0-9_]{1,40}){0,9}")?')


def ignored(answer: httpx2.Response) -> str | None:
    header: str | None = answer.headers.get("x-service-ignored")
    return header


@given(st.binary(max_size=300), st.frozensets(st.sampled_from([b"limit", b"cursor"])))
def test_whatever_is_sent_the_header_is_plain(query: bytes, known: frozenset[bytes]) -> None:
    """No byte of a name reaches it but letters, digits and underscores; a known parameter is never told."""
    found = find_ignored(query, known)
    assert WRITTEN.fullmatch(found.header)
    assert len(found.names) in {0, found.total}
    assert not {name.encode() for name in found.names} & known


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (b"limit=3&cursor=a", Ignored(0, ())),
        (b"limitt=3&limitt=4&sort", Ignored(2, ("limitt", "sort"))),
        (b"%6cimit=3&%6cimitt=3", Ignored(1, ("limitt",))),
        (b"Limit=3", Ignored(1, ())),
        (b"sort=a&x-y=b", Ignored(2, ())),
        (b"a%0d%0aset-cookie:b=c", Ignored(1, ())),
        (b"=3&&", Ignored(1, ())),
        (b"a" * 40, Ignored(1, ("a" * 40,))),
        (b"a" * 41, Ignored(1, ())),
        (b"&".join(b"p%d" % n for n in range(10)), Ignored(10, tuple(f"p{n}" for n in range(10)))),
        (b"&".join(b"p%d" % n for n in range(11)), Ignored(11, ())),
        (b"&".join(b"p%d" % n for n in range(500)), Ignored(500, ())),
        ("é=1".encode(), Ignored(1, ())),
    ],
)
def test_what_is_not_known_is_counted_and_named(query: bytes, found: Ignored) -> None:
    assert find_ignored(query, frozenset({b"limit", b"cursor"})) == found


def test_every_parameter_that_an_operation_reads_is_known() -> None:
    """Those of its struct, those that may hold a key, and `as_of`, refused where it is not read or ignored.

    A handler that reads its query without a struct, as a page does, is the only one to know its parameters.
    """
    for bound in map(Bound, all_endpoints()):
        query = bound.operation.query
        if bound.known_parameters is None:
            assert query is None
            continue
        assert (b"as_of" in bound.known_parameters) != bound.operation.body.reads_query
        assert {name.encode() for name in (() if query is None else query.__struct_encode_fields__)} <= (
            bound.known_parameters
        )


def test_a_misspelt_parameter_is_told_whatever_the_answer(server: ServerHandle) -> None:
    with server.client() as client:
        key = sign_in(client, server.internal_token)
        project = create_project(client, key)
        path, owner = f"/v1/projects/{project['project_id']}/cases", bearer(key)
        told = client.get(path, params={"limitt": "3", "sort": "x"}, headers=owner)
        assert (told.status_code, ignored(told)) == (200, '2;names="limitt sort"')
        for params, status, header in [
            ({"limit": "3"}, 200, None),
            ({"limit": "x", "limitt": "3"}, 400, '1;names="limitt"'),
            ({"as_of": "3"}, 400, None),
            ({"Limit": "3"}, 200, "1"),
        ]:
            answer = client.get(path, params=params, headers=owner)
            assert (answer.status_code, ignored(answer)) == (status, header), params
        assert ignored(client.get(path, params={"who": "me"})) == '1;names="who"'  # 401
        missing = client.get(path.replace("proj_", "proj_x"), params={"who": "me"}, headers=owner)
        assert (missing.status_code, ignored(missing)) == (404, '1;names="who"')
        sent = client.post(
            "/v1/logs/", params={"dsn": project["dsn"], "debug": "1"}, json={"level": "error", "message": "m"}
        )
        assert (sent.status_code, ignored(sent)) == (202, '1;names="debug"')
        assert "x-service-ignored" in sent.headers["access-control-expose-headers"]
        metrics = client.get("/metrics", headers=bearer(server.internal_token)).text
        assert re.search(r'service_ignored_parameters_total\{operation="list_cases"\} [4-9]', metrics), metrics
