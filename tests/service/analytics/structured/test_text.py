"""Which texts are one bounded select over a provider's tables, and what of them is sent (G-066, G-154)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.analytics.structured.checking import check_text
from service.analytics.structured.fields import UnfitText
from tests.support import few_or_many

IDENTITY = Path(__file__).parents[3] / "foreign" / "sqlglot" / "identity.sql"


@pytest.mark.parametrize(
    "text",
    [
        "select * from events",
        "SELECT count() FROM events WHERE event = 'paid'",
        "select event, count() as n from events where properties.$browser = 'Chrome' group by event order by n desc",
        "select properties.plan.tier, person.properties.email from events limit 10 offset 5",
        "with paid as (select distinct person_id from events where event = 'paid') select count() from paid",
        "with a as (select * from events), b as (select * from a) select * from b join a on a.event = b.event",
        "with 5 as least select event from events group by event having count() > least",
        "select * from events e left join persons as p on e.person_id = p.id, sessions",
        "select * from (select event from events union_ where event = 'x')",
        "select toStartOfDay(timestamp) as day, uniqExact(distinct_id) from events group by day order by day",
        "select quantile(0.5)(x), countIf(a), if(a, b, c), a ? b : c, a::String, tuple(1, 2), [1, 2] from events",
        "select arrayMap(x -> x + 1, [1]), arrayJoin([1, 2]), groupArray(10)(event) from events",
        "select * from events array join [1, 2] as x",
        "select sum(1) over (partition by a order by b rows between 1 preceding and current row) from events",
        "select * from events where event in ('a', 'b') and person_id in (select id from persons)",
        "select case when a then 1 else 2 end, a between 1 and 2, not a, -1, 1e5, null, true from events",
        "select * from events where timestamp > now() - interval 7 day and event ilike '%pay%'",
        "select * from `events` where \"event\" = 'x'",
    ],
)
def test_a_select_over_the_tables_passes(text: str) -> None:
    assert check_text(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "one statement"),
        (" ; ;", "one statement"),
        ("select * from events; select * from events", "one statement"),
        ("select * from events; drop table events", "one statement"),
        ("select 1", "must read events, persons, sessions"),
        ("select * from events union all select * from events", "not a union"),
        ("select * from (select 1 from events union all select 1 from events)", "union"),
        ("insert into events select * from events", "one select"),
        ("delete from events", "one select"),
        ("alter table events delete where 1", "one select"),
        ("create table x as select * from events", "one select"),
        ("drop table events", "one select"),
        ("set x = 1", "one select"),
        ("show tables", "one select"),
        ("describe events", "one select"),
        ("explain select * from events", "one select"),
        ("select * from events settings max_execution_time = 0", "settings"),
        ("select * from (select * from events settings max_threads = 1)", "settings"),
        ("select * from events format JSON", "format"),
        ("select * from events into outfile 'x'", "not understood"),
        ("select * from events prewhere a", "prewhere"),
        ("select * from url('http://x', 'CSV', 'a String')", "table function"),
        ("select * from events, s3('x')", "table function"),
        ("select * from events join remote('h', 'd', 't') on 1 = 1", "table function"),
        ("select * from file('/etc/passwd')", "table function"),
        ("select * from numbers(10), events", "table function"),
        ("select (select count() from merge('a', 'b')) from events", "table function"),
        ("select * from events where 1 = (select 1 from mysql('a', 'b', 'c', 'd', 'e'))", "table function"),
        ("select file('/etc/passwd') from events", "function file"),
        ("select dictGet('d', 'a', 1) from events", "function dictget"),
        ("select joinGet('d.t', 'a', 1) from events", "function joinget"),
        ("select sleep(3) from events", "function sleep"),
        ("select * from system.users", "no database"),
        ("select * from `system`.`users`", "no database"),
        ('select * from "default".events', "no database"),
        ("select * from users", "no other table"),
        ("select * from EVENTS", "no other table"),
        ("select * from . events", "name before each dot"),
        ("select * from events, .events", "name before each dot"),
        ("select * from events where a in (select password from users)", "no other table"),
        ("select a in system.users from events", "brackets"),
        ("select a not in users from events", "brackets"),
        ("select * from users, (with users as (select 1 from events) select 1 from users) x", "with"),
        ("with a as (select * from users), users as (select * from events) select * from a", "no other table"),
        ("with (select count() from events) as users select * from users", "no other table"),
        ("with 5 as users select * from users", "no other table"),
        ("with recursive a as (select 1 from events union all select 1 from a) select * from a", "recursive"),
        ("select * from (values (1)) t, events", "tables by their names"),
        ("select * from events final", "tables by their names"),
        ("select {x:String} from events", "braces"),
        ("select * from events where {filters}", "braces"),
        ("select f'{event}' from events", "braces|not understood"),
        ("select @@version from events", "@"),
        ("select ? from events", "placeholder"),
        ("select x'41' from events", "not understood"),
        ("select $$a$$ from events", "beginning of a name"),
        ("select $a$ from events", "beginning of a name"),
        ("select * from events where a = 'open", "does not end"),
        ("select * from events /* open", "does not end"),
        ("select `a\\`b` from events", "quoted names"),
        ('select "a`b" from events', "quoted names"),
        ("select * from events // x", "not understood"),
        ("select * from events # x", "not understood"),
        ("select " + "(" * 500 + "1" + ")" * 500 + " from events", "nest less"),
        ("select " + "a, " * 6000 + "a from events", "at most 8000"),
        ("select " + "tuple(" * 100 + "1" + ")" * 100 + " from events", "nest less"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UnfitText, match=why):
        check_text(text)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("select a -- one\nfrom /* two */ events ; ", "select a from events"),
        ("select 'it''s', 'a\\'b', 'c\\\\' from events", "select 'it\\'s' , 'a\\'b' , 'c\\\\' from events"),
        ("select '-- a', '/* b */', '{c}', ';' from events", "select '-- a' , '/* b */' , '{c}' , ';' from events"),
        ('select "a b", `c` from events', "select `a b` , `c` from events"),
        ("select properties.$x from events", "select properties . $x from events"),
        ("select 'é', x.y from events", "select 'é' , x . y from events"),
    ],
)
def test_what_is_sent_has_one_spelling(text: str, sent: str) -> None:
    assert check_text(text) == sent
    assert check_text(sent) == sent


def test_every_statement_of_the_parsers_own_tests_gets_a_verdict() -> None:
    """As it is, and over a table that may be read; never an exception, and never anything that is no select."""
    statements = [
        line for line in IDENTITY.read_text(encoding="utf-8").splitlines() if line and not line.startswith("--")
    ]
    assert len(statements) > 900
    assert not any(map(_passes, statements))
    forms = ("SELECT * FROM events WHERE {}", "SELECT {} FROM events")
    passed = [text for text in (form.format(line) for line in statements for form in forms) if _passes(text)]
    assert len(passed) > 300, "expressions pass"
    assert all(_passes(check_text(text)) for text in passed)


def _passes(text: str) -> bool:
    try:
        check_text(text)
    except UnfitText:
        return False
    return True


WORDS = [
    "select", "from", "events", "persons", "users", "system", ".", ",", "(", ")", "*", "'a'", "'", '"', "`", "with",
    "as", "union", "all", "join", "on", "in", "where", "settings", "format", "into", "outfile", "url", "x", "=", "1",
    ";", "--", "/*", "*/", "{", "}", "->", "::", "?", ":", "[", "]", "$", "$$", "limit", "order", "by", "array", "over",
]  # fmt: skip
_SOURCE = re.compile(r"\b(?:from|(?<!array )join) ([^ ]+)")  # an array join has columns
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'")
_PART = re.compile(r"\b(\w+) as \( ")


@given(st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join) | st.text(max_size=200))
@few_or_many(100, 1500, deadline=None)
@example("events array join ? . events")
@example("events array join select")
@example("events ' { '")
def test_no_text_reads_more_than_was_judged(text: str) -> None:
    """What passes reads, also by a plain look at the words that are sent, these tables alone."""
    try:
        sent = check_text(f"select 1 from {text}")
    except UnfitText:
        return
    words = _STRING.sub("", sent)
    assert not set(words) & set(";{}")
    tables = {"events", "persons", "sessions"}
    assert set(_SOURCE.findall(words)) <= {"(", *tables, *(f"`{name}`" for name in tables), *_PART.findall(words)}


@pytest.mark.parametrize(
    "text",
    [
        "select " + "tuple(" * 1300 + "1" + ")" * 1300 + " from events",
        "select " + "tuple(" * 12 + "1" + ")" * 12 + " from events",
        "with " + ", ".join(f"a{n} as (select * from events)" for n in range(400)) + " select * from a1",
        "select " + "'a' " * 4000 + " from events",
        "(" * 20_000,
        "/*" * 10_000,
        "select " + "[" * 3000 + "]" * 3000 + " from events",
        "select " + "case when a then " * 900 + "1" + " end" * 900 + " from events",
    ],
)
def test_a_text_made_to_be_slow_is_given_up(text: str) -> None:
    """Within a bounded number of steps: seconds of processor time at the most, on any machine of today."""
    began = process_time()
    _passes(text)
    assert process_time() - began < 5


def test_the_grammar_is_loaded_with_the_first_text_alone() -> None:
    program = (
        "import sys, service.analytics.structured.compiling as asking\n"
        "from service.analytics.structured.checking import check_text\n"
        "assert not any(name.startswith('sqlglot') for name in sys.modules)\n"
        "check_text('select * from events')\n"
        "assert 'sqlglot' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
