"""Requests that no page of ours makes: from other sites, in odd forms, with odd texts. None is carried out or fails."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx2
import pytest

from service.console.kit.visit import local, way_to
from tests.service.console.test_signing_in import link_for, secret_in, send
from tests.support.api import Person, World
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import COOKIE, Browser, browser_of

pytestmark = pytest.mark.shares_server

FORM = "application/x-www-form-urlencoded"
CREATE = "/console/do/create_project"
ODD_TEXTS = ("%00", "%ff", "%ed%a0%80", "%zz", "%", "..", "x" * 6_000, "%0d%0aX-Evil:1", "%F0%9F%98%80", "{0.a}", "1;2")


class Caught(NamedTuple):
    """A person, their browser and a project, and the token of the browser's forms."""

    person: Person
    browser: Browser
    project_id: str
    csrf: str

    @property
    def cookie(self) -> dict[str, str]:
        return {"cookie": f"{COOKIE}={self.browser.secret}"}

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.browser.client.get(path, headers={**self.cookie, **headers})

    async def post(self, path: str, fields: Any, **headers: str) -> httpx2.Response:
        content = fields if isinstance(fields, bytes) else urlencode(fields)
        sent = {**self.cookie, "content-type": FORM, "origin": self.browser.origin, **headers}
        return await self.browser.client.post(path, content=content, headers=sent)

    async def projects(self) -> list[str]:
        found = (await self.person.get("/v1/projects?limit=100")).json()["projects"]
        return sorted(one["name"] for one in found)

    def fields(self, *more: tuple[str, str]) -> list[tuple[str, str]]:
        return [("_csrf", self.csrf), ("_back", ""), ("_next", ""), *more]


async def catch(world: World) -> Caught:
    person = await world.sign_in()
    browser = await browser_of(person)
    project_id = (await person.create_project())["id"]
    return Caught(person, browser, project_id, (await browser.open("")).forms[0].value("_csrf"))


def is_frameless(answer: httpx2.Response) -> bool:
    """Whether no page can put the answer into a frame, and no browser takes it for another type."""
    policy = answer.headers.get("content-security-policy", "")
    assert "unsafe" not in policy
    return (
        "frame-ancestors 'none'" in policy
        and "default-src 'none'" in policy
        and answer.headers.get("x-frame-options") == "DENY"
        and answer.headers.get("x-content-type-options") == "nosniff"
    )


async def test_no_answer_goes_into_a_frame_or_a_cache(world: World):
    """Pages, refusals, ways to other places, files, downloads and what never reaches a page."""
    caught = await catch(world)
    places = [
        *("", "/", "/settings", "/settings/", "/nothing", "/projects/proj_none1", "//x", "/%2e", "/a%2fb", "/a%00b"),
        *("/%ff", "/enter", "/follow", "/follow?streams=x", "/assets/none", "/assets/..%2f..%2fdoor.py", "/leave"),
        *("/do/create_project", "?" + "&".join(f"a{number}=1" for number in range(60))),
        *("/assets/console.css", "/assets/console.js", "/assets/htmx.js", "/assets/icon.svg"),
    ]
    answers = [await caught.get(f"/console{place}") for place in places]
    answers += [await world.client.get("/console/settings"), await caught.post("/console/leave", {"_csrf": "no"})]
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
        answers += [
            await world.client.request(method, f"/console{place}", headers=caught.cookie)
            for place in ("", "/do/create_project", "/assets/none")
        ]
    answers += [await caught.post(CREATE, fields) for fields in ([], b"\xff", caught.fields(("name", "x" * 1_100_000)))]
    shop = (await caught.browser.open(f"projects/{caught.project_id}")).html
    follow = shop.partition('data-follows="')[2].partition('"')[0].replace("&amp;", "&")
    if follow:
        async with world.client.stream("GET", follow, headers=caught.cookie) as stream:
            answers.append(stream)
    for answer in answers:
        where = f"{answer.request.method} {str(answer.request.url)[:90]} {answer.status_code}"
        assert is_frameless(answer), f"{where}: {dict(answer.headers)}"
        files = answer.status_code == 200 and "/assets/" in str(answer.request.url)
        assert answer.headers["cache-control"] == ("public, no-cache" if files else "no-store"), where
        assert answer.status_code < 500, where
        assert "x-service-ignored" not in answer.headers, where


async def test_other_sites_change_nothing(world: World):
    """Whatever they can have a browser send: its cookie, and everything but the token and the origin."""
    caught, other = await catch(world), await catch(world)
    await caught.browser.open("")
    evil = ("name", "evil")
    for number, (csrf, headers) in enumerate(
        [
            ("", {}),
            ("\u00fc", {}),
            ("\x00", {}),
            (caught.csrf[:-1], {}),
            (caught.csrf + "x", {}),
            (other.csrf, {}),
            (caught.csrf, {"origin": "null"}),
            (caught.csrf, {"origin": "https://evil.example"}),
            (caught.csrf, {"origin": f"{caught.browser.origin}.evil.example"}),
            (caught.csrf, {"host": "evil.example"}),
            (caught.csrf, {"cookie": ""}),
            (caught.csrf, {"cookie": f"{COOKIE}={other.browser.secret}"}),
            (caught.csrf, {"cookie": f"{COOKIE}={other.browser.secret}; {COOKIE}={caught.browser.secret}"}),
            (caught.csrf, {"content-type": "text/plain"}),
            (caught.csrf, {"content-type": "application/json"}),
            (caught.csrf, {"content-type": "multipart/form-data; boundary=x"}),
            (caught.csrf, {"content-type": ""}),
            (caught.csrf, {"content-type": f"{FORM}; charset=utf-16"}),
        ]
    ):
        answer = await caught.post(CREATE, [("_csrf", csrf), ("_back", ""), evil], **headers)
        assert answer.status_code in {303, 400, 403, 415}, number
        if answer.status_code == 303:
            assert answer.headers["location"] == "/console/enter", number
        without = await caught.post(CREATE, [("_back", ""), evil], **headers)
        assert without.status_code in {303, 400, 403, 415}, number
    for path in (CREATE, "/console/leave", "/console/preferences", f"/console/projects/{caught.project_id}/delete"):
        address = f"{path}?{urlencode(caught.fields(evil, ('theme', 'dark')))}"
        assert (await caught.get(address)).status_code in {200, 404}
    assert await caught.projects() == ["shop"]
    assert await other.projects() == ["shop"]
    assert (await caught.get("/console/settings")).status_code == 200


ODD_FORMS: list[Any] = [
    [("a." * 50_000 + "b", "1")],
    [("name." * 900 + "b", "1")],
    [(":json", "[" * 100_000 + "]" * 100_000)],
    [(":json", '{"name":' * 400 + "1" + "}" * 400)],
    [(":json", "null")],
    [(":json", '"\\ud800"')],
    [("....", "1"), ("", "x")],
    [("name", "\0")],
    [("\0", "x")],
    [("name", "x" * 900_000)],
    [(f"a{number}", "1") for number in range(10_000)],
    [("name", "1"), ("name.x", "2")],
    [("name:json", "1e999")],
    [("name:json", "9" * 5_000)],
    [("name", ""), ("_state", "[" * 100_000)],
    [("name", ""), ("_state", '{"a":1}')],
    [("name", "x"), ("_key", "\u00fc")],
    [("name", "x"), ("_key", "a\nb")],
    [("name", ""), ("_back", "nothing")],
    [("name", ""), ("_back", "download/get_project_archive?project_id=x")],
    [("name", ""), ("_back", "?" + "&".join(f"a{number}=1" for number in range(60)))],
    [("name", ""), ("_back", "\ufffe?\U0001f600=\u2028")],
    b"_csrf=%zz&%",
    b"_csrf=%ff",
    b"_csrf=%ed%a0%80",
    b"\xff\xfe",
    b"&&&",
    b"abc",
]


async def test_an_odd_form_is_refused(world: World):
    caught = await catch(world)
    for number, fields in enumerate(ODD_FORMS):
        answer = await caught.post(CREATE, fields if isinstance(fields, bytes) else [("_csrf", caught.csrf), *fields])
        assert answer.status_code in {400, 403, 404, 413}, f"{number}: {answer.text}"
    assert await caught.projects() == ["shop"]


async def test_an_odd_address_is_no_failure(world: World):
    """In each value of the addresses of pages and forms, and in their parameters."""
    caught = await catch(world)
    project = f"projects/{caught.project_id}"
    parameters = {
        "": "cursor done",
        f"{project}": "done days",
        f"{project}/cases": "status environment release search order cursor tag path person view",
        f"{project}/views": "text tag path person seen status",
        f"{project}/log": "before",
        f"{project}/logs": "level q user release trace when from to cursor",
        f"{project}/people": "search cursor",
        f"{project}/people/person": "id cursor",
        f"{project}/alerts": "blueprint",
        f"{project}/suppressions": "pattern",
        f"{project}/webhooks/whk_1": "status after",
        f"streams/{caught.project_id}": "event before from to",
        "streams": "stream_id",
        "device": "user_code settled",
        "again": "next",
        "enter": "token next",
        "download/get_project_archive": "project_id",
        "settings": "cursor",
    }
    for place, names in parameters.items():
        for odd in ODD_TEXTS:
            query = "&".join(f"{name}={odd}" for name in names.split())
            answer = await caught.get(f"/console/{place}?{query}".replace("/?", "?"))
            assert answer.status_code in {200, 303, 400, 404}, f"{place}?{query[:80]}: {answer.text[:300]}"
            assert "X-Evil" not in answer.headers
    for odd in (*ODD_TEXTS[6:], "a%20b", "%25", "\u00fc"):
        for address in ("projects/{}", "cases/{}", "runs/{}", "streams/{}", "invitations/{}", "download/{}", "do/{}"):
            answer = await caught.get(f"/console/{address.format(odd)}")
            assert answer.status_code in {400, 404, 414}, f"{address} {odd[:40]}"
        path = ("_path.project_id", odd)
        answer = await caught.post("/console/do/rotate_dsn", caught.fields(path, ("confirm", "x")))
        assert answer.status_code in {400, 404}, odd[:40]
    for more in (
        [],
        [("_path.project_id", "")],
        [("_path.project_id", "../x")],
        [("_path.project_id", "{project_id}")],
    ):
        assert (await caught.post("/console/do/rotate_dsn", caught.fields(*more))).status_code == 404


@pytest.mark.parametrize(
    "place",
    [
        "//evil.example",
        "https://evil.example",
        "\\\\evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "..//evil.example",
        "a/../../v1/projects",
        "%2e%2e/v1/projects",
        ".",
        "a//b",
        "a\r\nX-Evil: 1",
        "a%0d%0aX-Evil:1",
        "\t//evil.example",
        "x" * 5_000,
    ],
)
async def test_no_text_leads_out_of_the_console(world: World, place: str):
    assert local(place) == ""
    caught = await catch(world)
    fields = [("_csrf", caught.csrf), ("_next", place), ("theme", "dark")]
    answer = await caught.post("/console/preferences", fields)
    assert answer.headers["location"] == "/console?done=preferences"
    entered = await send(world, await link_for(world, caught.person), after=place)
    assert (entered.status_code, entered.headers["location"]) == (303, "/console")


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("", "/console"),
        ("?cursor=a%20b", "/console?cursor=a%20b"),
        ("settings", "/console/settings"),
        ("projects/proj_1/cases?search=a:b/c&x=//y", "/console/projects/proj_1/cases?search=a:b/c&x=//y"),
        ("\u00fc\u4e2d", "/console/%C3%BC%E4%B8%AD"),
        ("a#b", "/console/a%23b"),
    ],
)
async def test_a_place_of_the_console_stays(world: World, place: str, address: str):
    assert way_to(local(place)) == address
    entered = await send(world, await link_for(world, await world.sign_in()), after=place)
    assert (entered.status_code, entered.headers["location"]) == (303, address)
    assert secret_in(entered)
