"""The page of a case: what it shows, what can be done there, and what it makes of hostile telemetry."""

from __future__ import annotations

import html
import json
import re

import pytest

from service.console.pages import errors
from statemachines.accounts.membership import Role
from tests.service.http.cases.test_full_cases import COMMENTS, fill
from tests.support import mappings
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import Browser, Shown
from tests.support.erring import BIDI, HOSTILE, SCRIPT, erring_shop
from tests.support.mappings import Segment

pytestmark = pytest.mark.shares_server

FRAMES = [
    {
        "file": "shop/pay.py",
        "function": "charge",
        "lineno": 17,
        "in_app": True,
        "pre_context": ["too far", *["def charge(card):"] * 5],
        "context_line": "    raise Refused",
        "post_context": ["def refund():", 3],
    },
    {"file": "lib/http.py", "function": "send", "lineno": 3, "in_app": False},
    {"file": "shop/web.py", "function": "buy", "lineno": 9, "in_app": True},
]


async def test_a_case_shows_what_its_latest_error_says(world: World):
    shop = await erring_shop(world)
    exception = {
        "type": "PaymentError",
        "value": "Card refused",
        "frames": FRAMES,
        "causes": [{"type": "KeyError", "value": "'card'", "frames": FRAMES[:1]}],
    }
    extra = {
        "exception": exception,
        "breadcrumbs": [{"timestamp": 1, "category": "query", "message": "select 1", "data": {"rows": 3}}, {}],
        "request": {"url": "https://shop.example/pay", "method": "POST", "headers": {"Host": "shop.example"}},
    }
    case_id = await shop.err(
        "Card refused", extra=extra, tags={"region": "eu"}, user={"id": "u1", "email": "u1@example.com"}, release="r1"
    )
    page = await shop.browser.open(f"cases/{case_id}")
    for told in (
        "PaymentError", "Caused by", "KeyError", "charge", "shop/pay.py:17", "raise Refused", "1 frame of libraries",
        "select 1", "https://shop.example/pay", "region", "u1@example.com", "r1", "Opened by its first error",
        "The project has no automation contract.", "Errors that agree in",
    ):  # fmt: skip
        assert told in page.text, told
    assert "at charge (shop/pay.py:17)" in page.html
    line = '<span class="no">12</span><bdi><span class="k">def</span> charge(card):'
    assert page.html.count(line) == 2, "as sent, around both causes"
    assert "too far" not in page.text
    assert "def refund" not in page.text, "what is no list of texts is left out"
    folded = re.findall(r"<details><summary>1 frame of libraries</summary>(.*?)</details>", page.html, re.DOTALL)
    assert ["lib/http.py:3" in one for one in folded] == [True]
    assert "lib/http.py" not in page.html.partition("<summary>Stack as text")[0].replace(folded[0], "")


async def test_an_error_is_shown_as_json_and_its_request_as_a_command(world: World):
    """Both have what is stored, so what was hidden stays hidden. A breadcrumb tells its time as seen from the error."""
    shop = await erring_shop(world)
    sent = {
        "url": "https://shop.example/pay?card=4111",
        "method": "post",
        "headers": {"Authorization": "Bearer sk_live_1234567890abcdef", "X-Shop": "it's <b>", "@/etc/passwd": "x"},
        "data": {"password": "hunter2", "cart": 3},
    }
    exception = {"type": "E", "value": "no", "frames": FRAMES, "mechanism": {"type": "x", "handled": False}}
    at = (await shop.case(await shop.err("first")))["latest_event"]["occurred_at"]
    crumbs = [{"timestamp": at - 75, "message": "select 1"}]
    case_id = await shop.err("no", extra={"exception": exception, "request": sent, "breadcrumbs": crumbs})
    event_id = (await shop.case(case_id))["latest_event"]["id"]
    page = await shop.browser.open(f"cases/{case_id}/errors/{event_id}")
    assert "unhandled in charge in shop/pay.py:17" in page.text
    assert "unhandled" in (await shop.browser.open(f"cases/{case_id}")).text
    assert re.search(r"1 min \d+ s before", page.text)
    command = html.unescape(page.html.partition("As a command for curl")[2].partition("</code>")[0])
    for told in ("--request POST", "--header $'X-Shop: it\\x27s <b>'", "--url 'https://shop.example/pay", '"cart": 3'):
        assert told in command, command
    assert "passwd" not in command
    raw = await shop.browser.open(f"cases/{case_id}/errors/{event_id}/json")
    shown = json.loads(html.unescape(raw.html.partition("<bdi>{")[2].partition("</bdi>")[0]).join(["{", ""]))
    assert shown == ok(await shop.owner.get(f"/v1/cases/{case_id}/events/{event_id}"))
    for told in (page.html, raw.html):
        assert "sk_live_1234567890abcdef" not in told
        assert "hunter2" not in told
    assert f"/console/download/get_case_event?case_id={case_id}&amp;event_id={event_id}" in raw.html


def test_a_breadcrumb_tells_its_time_as_seen_from_the_error():
    crumbs = [{"timestamp": at} for at in (900, 999.5, 1_000.9, 4_700, SCRIPT, None)]
    told = [one.before for one in errors.breadcrumbs({"occurred_at": 1_000, "breadcrumbs": crumbs})]
    assert told == ["1 min 40 s before", "1 s before", "with it", "1 h 1 min after", "", ""]


async def test_frames_are_shown_in_their_own_sources(world: World):
    shop = await erring_shop(world)
    source = "a()\nb()\nthrow new Error('no')\nc()\n"
    lines = [[Segment(0, 0, 2, 0)]]
    path = f"/v1/projects/{shop.id}/source-maps?release=r1&source_url=~/app.min.js"
    content = mappings.document(lines, ["src/app.ts"], sourcesContent=[source])
    headers = {"content-type": "application/octet-stream", "authorization": f"Bearer {shop.owner.secret}"}
    ok(await world.client.put(path, content=content, headers=headers))
    stack = "Error: no\n at f (https://x.example/app.min.js:1:1)\n at g (https://x.example/other.min.js:1:1)"
    case_id = await shop.err("no", release="r1", extra={"exception": {"type": "Error", "stack": stack}})
    page = await shop.browser.open(f"cases/{case_id}")
    assert "src/app.ts:3:1" in page.text
    assert re.search(
        r'class="line at"><span class="no">3</span><bdi><span class="k">throw</span> <span class="k">new</span> Error',
        page.html,
    )
    assert "No source map is stored for 1 file of this stack" in page.text
    assert "https://x.example/other.min.js" in page.text


async def test_members_act_on_a_case(world: World):
    shop = await erring_shop(world)
    case_id = await shop.err()
    page = await shop.browser.open(f"cases/{case_id}")
    page = await shop.browser.send(page.form("resolve_case"))
    assert "The case is resolved." in page.text
    assert (await shop.case(case_id))["status"] == "resolved"
    page = await shop.browser.send(page.form("reopen_case"))
    page = await shop.browser.send(page.form("ignore_case"))
    assert (await shop.case(case_id))["status"] == "ignored"
    page = await shop.browser.send(page.form("assign_case", user_id=shop.owner.user_id))
    assert (await shop.case(case_id))["assignee"] == shop.owner.user_id
    page = await shop.browser.send(page.form("assign_case", **{":json": _to_nobody(await shop.case(case_id))}))
    assert (await shop.case(case_id))["assignee"] is None
    page = await shop.browser.send(page.form("comment_on_case"), text=f"Looks like {SCRIPT}\nsecond line\n\n- `one`")
    assert "Looks like &lt;script&gt;alert(1)&lt;/script&gt;\nsecond line" in page.html
    assert "<li><code>one</code></li>" in page.html
    for told in ("Resolved", "Reopened", "Ignored", "Assigned to", "Assigned to nobody", "Commented"):
        assert told in page.text.partition("History")[2], told
    assert "person-" in page.text.partition("History")[2]  # who did it


def _to_nobody(case: dict[str, object]) -> str:
    return f'{{"case_revision": {case["revision"]}, "user_id": null}}'


async def test_cases_are_merged_and_split(world: World):
    shop = await erring_shop(world)
    one, other = await shop.err("Alpha broke"), await shop.err("Beta broke")
    page = await shop.browser.open(f"cases/{one}")
    merged = await shop.browser.send(page.form("merge_case"), into_case_id=other)
    assert "This case was merged into" in merged.text
    assert not [form for form in merged.forms if form.action.endswith("resolve_case")]
    page = await shop.browser.open(f"cases/{other}")
    assert "Merged into this case" in page.text
    await shop.browser.send(page.form("split_case"))
    assert "merged_into" not in await shop.case(one)
    page = await shop.browser.open(f"cases/{one}")
    again = await shop.browser.send(page.form("merge_case"), 404, into_case_id="case_none")
    assert "This was not carried out" in again.text
    assert again.form("merge_case").value("into_case_id") == "case_none"


async def test_of_two_people_at_once_the_later_sees_what_changed(world: World):
    shop = await erring_shop(world)
    case_id, another = await shop.err(), await shop.err("Beta broke")
    _, other = await shop.join(Role.MEMBER)
    mine, theirs = await shop.browser.open(f"cases/{case_id}"), await other.open(f"cases/{case_id}")
    await other.send(theirs.form("resolve_case"))
    for operation in ("ignore_case", "comment_on_case", "assign_case", "merge_case"):
        entered = {"comment_on_case": {"text": "I look"}, "merge_case": {"into_case_id": another}}.get(operation, {})
        stale = await shop.browser.send(mine.form(operation), 409, **entered)
        assert "This page was out of date" in stale.text
        assert re.search(r"Status</th><td>open</td><td>resolved", stale.html)
    assert "Nothing was overwritten" in stale.text
    kept = await shop.browser.send(mine.form("comment_on_case"), 409, text="I look")
    assert kept.form("comment_on_case").value("text") == "I look"
    done = await shop.browser.send(kept.form("comment_on_case"))
    assert "I look" in done.text


async def test_a_full_case_says_so_and_keeps_what_was_written(world: World):
    shop = await erring_shop(world)
    case_id = await shop.err()
    page = await shop.browser.open(f"cases/{case_id}")
    await fill(world, COMMENTS, shop.id, case_id, 1, COMMENTS.most)
    full = await shop.browser.send(page.form("comment_on_case"), 409, text="One more")
    assert "A case takes at most 1,000 comments." in full.text
    assert "Write what follows in your own tracker." in full.text
    assert full.form("comment_on_case").value("text") == "One more"


async def test_two_people_assign_one_after_the_other(world: World):
    shop = await erring_shop(world)
    case_id = await shop.err()
    member, other = await shop.join(Role.MEMBER)
    mine, theirs = await shop.browser.open(f"cases/{case_id}"), await other.open(f"cases/{case_id}")
    await other.send(theirs.form("assign_case", user_id=member.user_id))
    page = await shop.browser.send(mine.form("assign_case", user_id=shop.owner.user_id))
    assert (await shop.case(case_id))["assignee"] == shop.owner.user_id
    assert page.text.partition("History")[2].count("Assigned to") == 2  # both are told


async def test_who_acted_has_a_name(world: World):
    """In the history of a case and in the log. Of others whom nobody sees, the kind is told."""
    shop = await erring_shop(world)
    case_id = await shop.err()
    _, auditor = await shop.join(Role.AUDITOR)
    page = await shop.browser.open(f"cases/{case_id}")
    await shop.browser.send(page.form("resolve_case"))
    members = ok(await shop.owner.get(f"/v1/projects/{shop.id}/members"))["members"]
    [email] = [one["email"] for one in members if one["user_id"] == shop.owner.user_id]
    assert f"Resolved by {email}" in (await shop.browser.open(f"cases/{case_id}")).text
    for place in (f"projects/{shop.id}/log", f"streams/{case_id}"):
        assert f">{email}</bdi>" in (await shop.browser.open(place)).html
    assert "Resolved by a member" in (await auditor.open(f"cases/{case_id}")).text


async def test_roles_see_what_they_may(world: World):
    shop = await erring_shop(world)
    case_id = await shop.err()
    _, auditor = await shop.join(Role.AUDITOR)
    page = await auditor.open(f"cases/{case_id}")
    assert "Opened by its first error" in page.text
    assert [form.action for form in page.forms if "_case" in form.action] == []
    _, member = await shop.join(Role.MEMBER)
    page = await member.open(f"cases/{case_id}")
    assert "Owners and auditors see every event" in page.text
    assert page.form("resolve_case")


async def test_a_case_of_others_is_none(world: World):
    shop, other = await erring_shop(world), await erring_shop(world)
    theirs = await other.err()
    event_id = (await other.case(theirs))["latest_event"]["id"]
    for place, none in [
        (f"cases/{theirs}", "cases/case_none"),
        (f"cases/{theirs}/errors", "cases/case_none/errors"),
        (f"cases/{theirs}/errors/{event_id}", f"cases/case_none/errors/{event_id}"),
        (f"cases/{theirs}/people", "cases/case_none/people"),
    ]:
        assert (await shop.browser.open(place, 404)).text == (await shop.browser.open(none, 404)).text
    form = (await other.browser.open(f"cases/{theirs}")).form("resolve_case")
    fields = [(name, value) for name, value in form.fields if name not in {"_csrf", "_back"}]
    csrf = (await shop.browser.open("")).form("create_project").value("_csrf")
    refused = await shop.browser.post(form.action, [*fields, ("_csrf", csrf), ("_back", "")], 404)
    assert "not carried out" in refused.text
    assert (await other.case(theirs))["status"] == "open"


async def _pages(browser: Browser, case_id: str, event_id: str) -> list[Shown]:
    places = [
        f"cases/{case_id}",
        f"cases/{case_id}/errors",
        f"cases/{case_id}/errors/{event_id}",
        f"cases/{case_id}/errors/{event_id}/json",
        f"cases/{case_id}/people",
    ]
    return [await browser.open(place) for place in places]


async def test_hostile_telemetry_is_text(world: World):
    shop = await erring_shop(world)
    frame = {"file": "javascript:alert(4)", "function": HOSTILE, "line": 3, "in_app": True, "context_line": SCRIPT}
    odd = {"file": {"a": 1}, "function": [SCRIPT], "lineno": "9" * 40, "context_line": 7}
    cause = {"type": SCRIPT, "value": SCRIPT, "frames": [odd]}
    crumbs = [
        {"timestamp": SCRIPT, "category": {"a": SCRIPT}, "message": HOSTILE, "level": 7, "data": SCRIPT},
        {"timestamp": 1e300, "message": 5},
    ]
    sent = {"url": "javascript:alert(7)", "method": SCRIPT, "headers": {SCRIPT: SCRIPT}, "data": SCRIPT, SCRIPT: 1}
    exception = {"type": HOSTILE, "value": HOSTILE * 50, "frames": [frame], "causes": [cause]}
    case_id = await shop.err(
        f"{HOSTILE} {'x' * 7_000}\x00",
        level="fatal",
        environment=SCRIPT,
        release=f"{SCRIPT}{BIDI}",
        tags={SCRIPT: "javascript:alert(6)", f"key{BIDI}": HOSTILE},
        user={"id": f"{SCRIPT}/../x?y#z", "email": f'"{SCRIPT}@x', SCRIPT: SCRIPT},
        extra={"exception": exception, "breadcrumbs": crumbs, "request": {**sent, "cookies": [SCRIPT]}},
    )
    event_id = (await shop.case(case_id))["latest_event"]["id"]
    for page in await _pages(shop.browser, case_id, event_id):
        assert "<script>alert" not in page.html
        assert "<img" not in page.html
        assert not re.search(r'(href|src|action)="[^"]*javascript:', page.html)
        bare = re.sub(r"<bdi>.*?</bdi>|<[^>]*>", "", page.html, flags=re.DOTALL)
        shown = bare.partition("<body>")[2].replace(page.html.partition("<h1>")[2].partition("</h1>")[0], "")
        assert "\u202e" not in shown


async def test_errors_of_a_case_are_browsed(world: World):
    shop = await erring_shop(world)
    for number in range(26):
        tags = {"region": "eu" if number < 25 else "us", "environment": "not the one of the error"}
        case_id = await shop.err("Same broke", release=f"r{number}", user={"id": f"u{number}"}, tags=tags)
    page = await shop.browser.open(f"cases/{case_id}/errors")
    common = page.text.partition("What all 26 stored errors share")[2]
    assert "region eu 25 of 26 us 1 of 26" in common
    beside = (await shop.browser.open(f"cases/{case_id}")).text.partition(" Tags of all 26 errors ")[2]
    assert "region eu 25 of 26 us 1 of 26" in beside
    assert "and 23 other values" in common, "of the release"
    assert "not the one of the error" not in common
    assert page.html.count(f"/console/cases/{case_id}/errors/log_") == 25
    [after] = [part.partition('"')[0] for part in page.html.split('class="button" href="?')[1:]]
    rest = await shop.browser.open(f"cases/{case_id}/errors?{after.replace('&amp;', '&')}")
    [event_id] = re.findall(r"/errors/(log_\w+)", rest.html)
    one = await shop.browser.open(f"cases/{case_id}/errors/{event_id}")
    assert "r0" in one.text
    assert "Older error" not in one.text
    [newer] = re.findall(r'rel="prev" href="/console/(cases/\w+/errors/log_\w+)"', one.html)
    next_one = await shop.browser.open(newer)
    assert "r1" in next_one.text
    assert f'rel="next" href="/console/cases/{case_id}/errors/{event_id}"' in next_one.html
    everybody = await shop.browser.open(f"cases/{case_id}/people")
    assert everybody.html.count("/people/person?id=") == 26
