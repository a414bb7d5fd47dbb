"""The documentation for people: every page and link, the search, and what a browser may load."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from schemas.discovery import MAX_ASKED
from service.console import assets
from service.discovery import pages
from service.discovery.pages import MOST_HITS, SECTIONS, WEIGHTS, Findable
from service.discovery.reads import Installation
from service.http.discovery import facts, guides, shelf
from service.wordindex import words_of
from tests.service.http.discovery.test_guides import ABLE, BASE, UNABLE, edge_of, read
from tests.service.http.edge.toy_api import running
from tests.service.test_wordindex import looked_through
from tests.support import long_after, seen
from tests.support.html import HtmlPage

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOCS = Path(__file__).parents[4] / "docs"
FOLDERS = {"tutorial": "tutorial", "how-to": "how-to", "explanation": "explanation", "reference": "reference"}
FOLDERS["machines"] = "reference/machines"
FILES = {
    f"/docs/{section}/{file.stem}": file for section, folder in FOLDERS.items() for file in (DOCS / folder).glob("*.md")
}
del FILES["/docs/reference/rules"]  # links tests, which are no pages
GUIDES = {f"/docs/guides/{name}": paths[0] for name, (_, paths) in shelf.GUIDES.items()}
TAGS = [f"/docs/api/{group}" for group in sorted({one.group for one in facts.operations().values()})]
OPERATIONS = [f"/docs/api/{name}" for name in facts.operations()]
SOME = 12
"""Operations whose pages `make test` tries one by one."""
LISTED = [*FILES, *GUIDES, *TAGS]
PAGES = [*LISTED, *OPERATIONS]
SHOWN = ["/docs", "/docs/search", "/docs/search?q=lease+run", *PAGES]
MARKDOWN = "text/markdown; charset=utf-8"
INSTALLATION = Installation(BASE, True, True, True, (), (), 500, None, 90)
KIB = 1024


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api() -> AsyncIterator[httpx2.AsyncClient]:
    edge = edge_of(**ABLE)
    async with running(edge), seen.async_client(BASE, transport=httpx2.ASGITransport(edge)) as client:
        yield client


def hits(answer: httpx2.Response) -> list[str]:
    """The addresses that a search shows."""
    return [link for link in HtmlPage(answer.text).links if link.startswith("/docs/")]


@pytest.mark.parametrize("path", long_after(len(SHOWN) - len(OPERATIONS) + SOME, SHOWN))
async def test_anybody_may_read(api: httpx2.AsyncClient, path: str) -> None:
    """Public and cached, the same twice and for HEAD, with one title, and nothing that a strict policy forbids."""
    answer = await api.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["style-src"] == "'self'"
    page = HtmlPage(answer.text)
    assert [tag for tag, _ in page.headings].count("h1") == 1
    sheet, *pictures = page.loaded
    assert sheet == "/docs/style.css"
    if "/console/assets/docs.js" in pictures:
        pictures.remove("/console/assets/docs.js")
        page.inline.remove("script")
        assert policy["script-src"] == "'self'"
    for picture in pictures:
        found = assets.named(picture.removeprefix("/console/assets/"))
        assert found is not None, picture
        assert found.content_type == assets.PICTURE_TYPE
        assert policy["img-src"] == "'self'"
    assert page.inline == []
    assert len(page.anchors) == len(set(page.anchors))
    assert (await api.get(path)).content == answer.content
    head = await api.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == answer.headers["content-type"]
    again = await api.get(path, headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert (await api.post(path.partition("?")[0])).status_code == 405


async def test_every_link_leads_to_something(api: httpx2.AsyncClient) -> None:
    """To a page, and to an anchor that it has, or to an operation without an id in its path."""
    found = {path: HtmlPage((await api.get(path)).text) for path in SHOWN}
    known = {one.path for one in facts.operations().values() if one.method == "GET"}
    dead = []
    for path, page in found.items():
        for link in page.links:
            target, _, anchor = link.removeprefix(BASE).partition("#")
            if "://" in target or target.partition("?")[0] in known:
                continue
            leads = found.get(target or path)
            if target.endswith(".md") and target.removesuffix(".md") in found:
                assert not anchor
            elif leads is None or (anchor and anchor not in leads.anchors):
                dead.append((path, link))
    assert dead == []


async def test_the_index_lists_every_page(api: httpx2.AsyncClient) -> None:
    page = HtmlPage((await api.get("/docs")).text)
    assert set(LISTED) <= set(page.links)
    assert [text for tag, text in page.headings if tag == "h2"] == [section.title for section in SECTIONS]


async def test_each_list_says_a_line_about_each_page(api: httpx2.AsyncClient) -> None:
    """A sentence of the page's own, and none for a page that is gone."""
    outline = (await api.get("/docs.md")).text
    lines = dict(re.findall(r"^- \[.+\]\((/docs/\S+)\.md\): (.+\.)$", outline, re.MULTILINE))
    assert lines.keys() == set(LISTED)
    written = [lines[page] for page in LISTED if "/machines/" not in page]
    assert len(written) == len(set(written))
    assert max(map(len, written)) <= 120
    assert lines["/docs/machines/claim"] == "Absent, active, released, expired, completed, revoked."
    assert {f"/docs/{place}" for place in pages._lines()} <= set(LISTED)


@pytest.mark.parametrize("page", ["/docs/how-to/sentry", "/docs/machines/claim", "/docs/api/create_project"])
async def test_a_page_stands_beside_all_others(api: httpx2.AsyncClient, page: str) -> None:
    """The sidebar has every page by section. The one of the page is open, and the page is marked in it."""
    text = (await api.get(page)).text
    assert set(LISTED) <= set(HtmlPage(text).links)
    assert text.count("<details") == len(SECTIONS)
    assert text.count("<details open>") == 1
    assert text.count('aria-current="page"') == (page in LISTED)


async def test_the_style_sheet_loads_nothing(api: httpx2.AsyncClient) -> None:
    """Light and dark, from tokens, without another file."""
    answer = await api.get("/docs/style.css")
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert "prefers-color-scheme: dark" in answer.text
    assert "url(" not in answer.text
    assert "@import" not in answer.text
    assert (await api.head("/docs/style.css")).status_code == 200
    assert (await api.put("/docs/style.css")).status_code == 405


@pytest.mark.parametrize("path", long_after(len(LISTED) + SOME, PAGES))
async def test_a_page_is_markdown_too(api: httpx2.AsyncClient, path: str) -> None:
    """At an address with an ending, and for those who prefer it; a browser gets HTML (G-166)."""
    beside = await api.get(f"{path}.md")
    asked = await api.get(path, headers={"accept": "text/markdown, text/html;q=0.9"})
    assert asked.content == beside.content
    assert asked.headers["content-type"] == beside.headers["content-type"] == MARKDOWN
    assert asked.headers["vary"] == "accept"
    browser = await api.get(path, headers={"accept": "text/html,text/markdown;q=0.5,*/*;q=0.1"})
    assert browser.headers["content-type"] == "text/html; charset=utf-8"
    assert browser.headers["vary"] == "accept"
    assert asked.headers["etag"] != browser.headers["etag"]
    if path in GUIDES:
        assert beside.content == (await api.get(GUIDES[path])).content
    elif path in FILES:
        title = FILES[path].read_text().splitlines()[0]
        assert beside.text.startswith(f"{title}\n")
        assert "](../" not in beside.text


@pytest.mark.parametrize("tag", TAGS)
async def test_a_tag_lists_its_operations(api: httpx2.AsyncClient, tag: str) -> None:
    """Each with its page."""
    name = tag.rpartition("/")[2]
    document = (await api.get("/v1/openapi.json", params={"tag": name})).json()
    row = re.compile(r"^\| \[(.+)\]\(/docs/api/(\w+)\.md\) \| `(.+)` \|$", re.MULTILINE)
    listed = row.findall((await api.get(f"{tag}.md")).text)
    assert sorted(listed) == sorted(
        (operation["summary"], operation["operationId"], f"{method.upper()} {path}")
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if operation["tags"][0] == name
    )


async def test_an_operation_is_shown_whole(api: httpx2.AsyncClient) -> None:
    """Its path, parameters, body, shapes and codes, as the schema document has them; short enough for an agent."""
    for page in OPERATIONS:
        one = facts.operations()[page.rpartition("/")[2]]
        text = (await api.get(f"{page}.md")).text
        document = (await api.get("/v1/openapi.json", params={"path": one.path, "method": one.method})).json()
        operation = document["paths"][one.path][one.method.lower()]
        assert f"`{one}`, operation `{operation['operationId']}`" in text
        assert operation["description"] in text
        assert all(f"| `{parameter['name']}` | {parameter['in']} |" in text for parameter in operation["parameters"])
        assert all(f"`{code}`" in text for code in operation["x-error-codes"])
        for content in operation.get("requestBody", {}).get("content", {}).values():
            example = content.get("example", "")
            example = example if isinstance(example, str) else json.dumps(example, indent=2)
            assert example[:2000].strip() in text
        for shape in document.get("components", {}).get("schemas", {}):
            assert f"\n### {shape}\n" in text
        assert len(text) <= 100_000, page


async def test_every_page_leads_to_the_list(api: httpx2.AsyncClient) -> None:
    """A person by a link in the head, an agent by the line below the title; the list has every page (G-166)."""
    assert 'href="/llms.txt"' in (await api.get("/docs")).text
    listed = (await api.get("/llms.txt")).text
    outline = await api.get("/docs.md")
    assert outline.content == (await api.get("/docs", headers={"accept": "text/markdown"})).content
    for page in LISTED:
        assert f"{page}.md)" in listed
        assert f"({page}.md)" in outline.text
        assert "> All texts of this service: [llms.txt](" in (await api.get(f"{page}.md")).text[:1200], page


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("first steps", "/docs/tutorial/first-steps"),
        ("OpenTelemetry", "/docs/how-to/opentelemetry"),
        ("create_project", "/docs/api/create_project"),
        ("list_cases", "/docs/api/list_cases"),
    ],
)
async def test_the_search_finds(api: httpx2.AsyncClient, asked: str, first: str) -> None:
    """By the words of titles, headings and texts, in any case."""
    for words in (asked, asked.upper()):
        assert hits(await api.get("/docs/search", params={"q": words}))[0].startswith(first)


async def test_a_search_needs_all_words(api: httpx2.AsyncClient) -> None:
    assert hits(await api.get("/docs/search", params={"q": "lease"}))
    assert hits(await api.get("/docs/search", params={"q": "lease zanzibar"})) == []
    assert hits(await api.get("/docs/search", params={"q": "  "})) == []
    within = hits(await api.get("/docs/search", params={"q": "ease"}))
    assert within == [], "a word within another one"


def holds(entry: Findable, word: str) -> bool:
    """Whether a word with a mark in it stands in an entry, and not within another word."""
    pattern = re.compile(("(?<![^\\W_])" if word[0].isalnum() else "") + re.escape(word))
    return any(pattern.search(part.casefold()) for part in entry[1:])


async def test_the_index_finds_what_a_look_through_all_finds() -> None:
    """For words of the pages, parts of them, and words with marks."""
    index = shelf.library(INSTALLATION)._index
    words = random.Random(7).sample(" ".join(entry.text for entry in index._entries).split(), 60)
    asked = [" ".join(words[at : at + 1 + at % 3])[: 3 + at % 17] for at in range(0, 60, 3)]
    for question in [*asked, "GET /v1/projects", "list_cases", "_", "`lease`", "İstanbul"]:
        numbers = looked_through([entry[1:] for entry in index._entries], WEIGHTS, words_of(question), every=True)
        marked = [word for word in question.casefold().split() if not word.isalnum()]
        found = [
            entry for entry in map(index._entries.__getitem__, numbers) if all(holds(entry, one) for one in marked)
        ]
        assert [hit.address for hit in index.search(question)] == [one.address for one in found[:MOST_HITS]], question


async def test_a_search_is_bounded(api: httpx2.AsyncClient) -> None:
    """At most twenty hits, for at most a hundred characters."""
    assert len(hits(await api.get("/docs/search", params={"q": "the"}))) == MOST_HITS == 20
    assert (await api.get("/docs/search", params={"q": "e" * MAX_ASKED})).status_code == 200
    answer = await api.get("/docs/search", params={"q": "e" * (MAX_ASKED + 1)})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_payload")
    assert (await api.get("/docs/search?q=%00")).status_code == 400


@pytest.mark.parametrize(
    "asked",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "' onfocus=x",
        "&lt;b&gt;",
        "{{ 7 * 7 }}",
        "é€",
    ],
)
async def test_what_is_asked_is_shown_as_text(api: httpx2.AsyncClient, asked: str) -> None:
    answer = await api.get("/docs/search", params={"q": asked})
    assert answer.status_code == 200
    page = HtmlPage(answer.text)
    assert page.inline == []
    assert page.loaded == ["/docs/style.css"]
    assert "<script" not in answer.text
    assert "<img" not in answer.text
    assert "49" not in answer.text


async def test_a_hit_is_shown_as_text(api: httpx2.AsyncClient) -> None:
    """The texts themselves have angle brackets: `&lt;br/&gt;` of a diagram."""
    answer = await api.get("/docs/search", params={"q": "stateDiagram-v2 <br/>"})
    assert hits(answer)
    assert "&lt;br/&gt;" in answer.text
    assert "<br/>" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/docs/how-to/none",
        "/docs/none/alerts",
        "/docs/decisions/README",
        "/docs/how-to/alerts.md.md",
        "/docs/how-to/alerts.html",
        "/docs/how-to/.md",
        "/docs/how-to/%2e%2e%2fexplanation%2fproofs",
        "/docs/%2e%2e/service",
        "/docs/how-to/..%2f..%2fREADME",
        "/docs/reference/machines%2frun",
        "/docs/how-to/alerts%00",
        "/docs/api/extension",
        "/docs/api/none",
        "/docs/api/../how-to",
        "/docs/style.cs",
    ],
)
async def test_nothing_else_is_a_page(api: httpx2.AsyncClient, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_another_process_shows_the_same(api: httpx2.AsyncClient) -> None:
    """Rendered again, each page has the same bytes."""
    first = {path: (await api.get(path)).content for path in SHOWN}
    guides._rendered.clear()
    shelf.library.cache_clear()
    assert {path: (await api.get(path)).content for path in SHOWN} == first


async def test_the_guides_are_those_of_this_installation() -> None:
    unable = (await read("/docs/guides/automation.md", **UNABLE)).content
    assert unable == (await read("/v1/docs/automation", **UNABLE)).content


async def test_what_is_kept_is_bounded(api: httpx2.AsyncClient) -> None:
    for path in SHOWN:
        await api.get(path)
    assert 0 < guides._rendered.bytes <= guides.MAX_BYTES == 4 * 1024 * KIB


async def test_nothing_is_loaded_before_the_first_request() -> None:
    """The modules alone cost less than a megabyte, and neither the parser nor a page is among them."""
    code = (
        "import sys, tracemalloc; import service.http.discovery.entry; tracemalloc.start();"
        "from service.http.discovery import pages, shelf; held = tracemalloc.get_traced_memory()[0];"
        "print(held, 'markdown_it' in sys.modules, 'service_docs' in sys.modules, shelf.library.cache_info().currsize)"
    )
    run = partial(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=True)
    done = await asyncio.to_thread(run)
    held, *loaded = done.stdout.split()
    assert int(held) < 1024 * KIB
    assert loaded == ["False", "False", "0"]
