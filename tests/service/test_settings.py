"""Settings come from the environment alone, are refused with every reason at once, and keep their secrets."""

import base64
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from service.embedded.layout import unfit
from service.settings import (
    CLIENT_VARIABLES,
    VARIABLES,
    Settings,
    SettingsError,
    load_settings,
    settings_table,
    unknown_variables,
)
from service.settingvalues import RATE_LIMITS, cores

EXTERNAL = {
    "SERVICE_DATABASE_URL": "postgresql://user:word@db.example/service",
    "SERVICE_INTERNAL_TOKEN": "an-internal-token-of-length",
    "SERVICE_ENCRYPTION_KEY": base64.b64encode(bytes(range(32))).decode(),
    "SERVICE_SIGNING_KEY": bytes(range(32)).hex(),
}


def problems(env: dict[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load_settings(env)
    assert str(refused.value) == "\n".join(refused.value.problems)
    return refused.value.problems


def test_an_empty_environment_gives_the_embedded_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Everything has a default; the two keys and the internal token are made, the test token is not."""
    monkeypatch.chdir(tmp_path)
    settings = load_settings({})
    assert settings.embedded
    assert settings.data_dir == tmp_path / ".data"
    assert settings.database_url.startswith("postgresql://service@/service?host=")
    assert (settings.host, settings.port, settings.workers) == ("127.0.0.1", 8000, min(2, cores()))
    assert settings.base_url == "http://127.0.0.1:8000"
    assert settings.rate_limits == RATE_LIMITS
    assert not settings.webhook_allow_private
    assert settings.scrub_names is None
    assert not settings.test_clock
    assert settings.test_token is None
    assert settings.encryption_key is not None
    assert len(settings.encryption_key) == len(settings.signing_key) == 32
    assert settings.plans["free"].events == 100000


@pytest.mark.parametrize(("number", "processes"), [(1, 1), (2, 2), (64, 2)])
def test_two_processes_serve_where_there_are_two_cores(
    number: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More are for the operator to ask for, and one is kept to by its setting."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(number)), raising=False)
    assert load_settings(EXTERNAL).workers == processes
    assert load_settings({**EXTERNAL, "SERVICE_WORKERS": "1"}).workers == 1
    assert load_settings({**EXTERNAL, "SERVICE_WORKERS": "3"}).workers == 3


def test_an_owner_apart_is_one_of_a_database_of_ones_own():
    """The same database as another role; beside the embedded one it has no meaning, and would be overlooked."""
    owner = {"SERVICE_MIGRATION_DATABASE_URL": "postgresql://owner:word@db.example/service"}
    assert load_settings(EXTERNAL | owner).migration_database_url == owner["SERVICE_MIGRATION_DATABASE_URL"]
    assert load_settings(EXTERNAL).migration_database_url is None
    assert load_settings(EXTERNAL | {"SERVICE_MIGRATION_DATABASE_URL": "none"}).migration_database_url is None
    [problem] = problems(owner)
    assert problem.startswith("SERVICE_MIGRATION_DATABASE_URL: needs SERVICE_DATABASE_URL")


@pytest.mark.parametrize(
    ("value", "networks"),
    [
        ("10.0.0.0/8, 2001:db8::/32 ,192.0.2.1", ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1/32"]),
        ("0.0.0.0/0", None),  # everybody's word would be nobody's
        ("::/0,10.0.0.0/8", None),
        ("10.0.0.1/8", None),
        ("proxy.example", None),
        (",", None),
    ],
)
def test_trusted_proxies_are_networks(tmp_path: Path, value: str, networks: list[str] | None):
    env = {"SERVICE_DATA_DIR": str(tmp_path), "SERVICE_TRUSTED_PROXIES": value}
    if networks is None:
        assert [problem.partition(":")[0] for problem in problems(env)] == ["SERVICE_TRUSTED_PROXIES"]
    else:
        assert list(map(str, load_settings(env).trusted_proxies or ())) == networks


def test_names_to_scrub_are_a_list(tmp_path: Path):
    directory = {"SERVICE_DATA_DIR": str(tmp_path)}
    assert load_settings({**directory, "SERVICE_SCRUB_NAMES": " card-number, Plate ,"}).scrub_names == (
        "card-number",
        "Plate",
    )
    assert problems({**directory, "SERVICE_SCRUB_NAMES": " , "}) == [
        "SERVICE_SCRUB_NAMES: must be one or more names, separated by commas"
    ]


def test_made_secrets_stay_and_are_private(tmp_path: Path):
    """A second start reads what the first one made; nobody else can."""
    env = {"SERVICE_DATA_DIR": str(tmp_path / "data")}
    first, second = load_settings(env), load_settings(env)
    assert first == second
    files = list((tmp_path / "data" / "secrets").iterdir())
    assert sorted(file.name for file in files) == ["encryption_key", "internal_token", "signing_key"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "data" / "secrets").stat().st_mode) == 0o700


def test_starts_at_once_make_one_set_of_secrets(tmp_path: Path):
    env = {"SERVICE_DATA_DIR": str(tmp_path / "data")}
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda _: load_settings(env), range(8)))
    assert all(settings == loaded[0] for settings in loaded)


def test_a_database_of_ones_own_needs_every_secret(tmp_path: Path):
    """Each missing one is named, and nothing is made."""
    found = problems(
        {"SERVICE_DATABASE_URL": EXTERNAL["SERVICE_DATABASE_URL"], "SERVICE_DATA_DIR": str(tmp_path / "d")}
    )
    assert [problem.partition(":")[0] for problem in found] == [
        "SERVICE_INTERNAL_TOKEN",
        "SERVICE_ENCRYPTION_KEY",
        "SERVICE_SIGNING_KEY",
    ]
    assert not (tmp_path / "d").exists()
    settings = load_settings(EXTERNAL)
    assert not settings.embedded
    assert settings.encryption_key == settings.signing_key == bytes(range(32))


def test_a_secret_can_be_left_out_on_purpose():
    """`none` says so; the signing key has no such word, because checkpoints are always signed."""
    settings = load_settings({**EXTERNAL, "SERVICE_INTERNAL_TOKEN": "none", "SERVICE_ENCRYPTION_KEY": "none"})
    assert settings.internal_token is None
    assert settings.encryption_key is None
    assert problems({**EXTERNAL, "SERVICE_SIGNING_KEY": "none"})[0].startswith("SERVICE_SIGNING_KEY: must be")


def test_secrets_come_from_files_too(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("a-token-from-a-file-\n")
    env = {**EXTERNAL, "SERVICE_TEST_TOKEN_FILE": str(file)}
    assert load_settings(env).test_token == "a-token-from-a-file-"
    assert problems({**env, "SERVICE_TEST_TOKEN": "another-token-of-length"}) == [
        "SERVICE_TEST_TOKEN: both it and SERVICE_TEST_TOKEN_FILE are set; keep one"
    ]
    assert "cannot be read" in problems({**EXTERNAL, "SERVICE_TEST_TOKEN_FILE": str(tmp_path / "none")})[0]
    file.write_text("")
    assert "is empty" in problems(env)[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SERVICE_PORT", "70000"),
        ("SERVICE_PORT", "http"),
        ("SERVICE_WORKERS", "0"),
        ("SERVICE_BASE_URL", "elsewhere.test"),
        ("SERVICE_BASE_URL", "https://service.example/?a=b"),
        ("SERVICE_DEPLOY_SHA", "main"),
        ("SERVICE_DEPLOY_SHA", "abcdef"),
        ("SERVICE_DEPLOY_SHA", "0" * 65),
        ("SERVICE_DATABASE_URL", "mysql://db/service"),
        ("SERVICE_INTERNAL_TOKEN", "short"),
        ("SERVICE_TEST_TOKEN", "aaaaaaaaaaaaaaaaaaaaaaaa"),
        ("SERVICE_TEST_TOKEN", "has spaces in its middle, it does"),
        ("SERVICE_ENCRYPTION_KEY", "c2hvcnQ="),
        ("SERVICE_SIGNING_KEY", "not base64 at all"),
        ("SERVICE_RATE_LIMITS", "perhaps"),
        ("SERVICE_RATE_LIMITS", "keys=5"),
        ("SERVICE_RATE_LIMITS", "key=-1"),
        ("SERVICE_RATE_LIMITS", "key=none"),
        ("SERVICE_RATE_LIMITS", "key=5,"),
        ("SERVICE_LOG_LEVEL", "loud"),
        ("SERVICE_CI_ISSUERS", "https://gitlab.acme.example"),
        ("SERVICE_CI_ISSUERS", "bitbucket=https://ci.acme.example"),
        ("SERVICE_CI_ISSUERS", "gitlab=http://gitlab.acme.example"),
        ("SERVICE_CI_ISSUERS", "gitlab="),
        ("SERVICE_CI_ISSUERS", " , "),
        ("SERVICE_PLANS", "{broken"),
        ("SERVICE_PLANS", '{"pro": {"events": 0, "retention_days": 1, "price_cents": 0}}'),
        ("SERVICE_PLANS", '{"pro": {"events": 1}}'),
        ("SERVICE_PAYMENT_API_BASE", "ftp://example.com"),
        ("SERVICE_CLICKHOUSE_URL", "clickhouse://u:p@ch.example/db"),
        ("SERVICE_CLICKHOUSE_URL", "http://u:p@ch.example:8123/db"),
        ("SERVICE_CLICKHOUSE_URL", "https://u:p@ch.example:port/db"),
        ("SERVICE_CLICKHOUSE_URL", "https://u:p@ch.example/db?readonly=0"),
        ("SERVICE_CLICKHOUSE_URL", "https:///db"),
        ("SERVICE_CLICKHOUSE_URL", "chdb://copy"),
        ("SERVICE_CLICKHOUSE_URL", "chdb://relative/copy"),
    ],
)
def test_a_bad_value_is_named_and_never_repeated(name: str, value: str):
    """The value may be a secret that went into the wrong variable."""
    [problem] = problems({**EXTERNAL, name: value})
    assert problem.startswith(f"{name}: ")
    assert value not in problem


def test_the_user_that_reads_the_copy_is_one_of_a_server():
    """The engine in the worker has one user, and without a copy there is nothing to read."""
    reader, copy = "SERVICE_CLICKHOUSE_READER_URL", "SERVICE_CLICKHOUSE_URL"
    server = {**EXTERNAL, copy: "https://writer:secret@ch.example:8443/db"}
    for url in ("http://reader:secret@ch.example:8123/db", "chdb:///var/lib/service/copy"):
        [problem] = problems({**server, reader: url})
        assert problem.startswith(f"{reader}: ")
        assert "secret" not in problem
    assert problems({**EXTERNAL, reader: "https://reader:secret@ch.example:8443/db"}) == [
        f"{reader}: needs {copy}; set both"
    ]
    settings = load_settings({**server, reader: "http://reader:secret@127.0.0.1:8123/db"})
    assert "secret" not in repr(settings)


def test_a_plan_that_lacks_something_is_told_what():
    """Without its name, which may be anything."""
    [problem] = problems({**EXTERNAL, "SERVICE_PLANS": '{"gold": {}}'})
    assert problem.endswith("a plan lacks events, retention_days, price_cents")
    [problem] = problems({**EXTERNAL, "SERVICE_PLANS": '{"gold": {"events": 1, "price_cents": 0}}'})
    assert problem.endswith("a plan lacks retention_days")
    [problem] = problems(
        {**EXTERNAL, "SERVICE_PLANS": '{"gold": {"events": 1, "retention_days": 1, "price_cents": "x"}}'}
    )
    assert problem.endswith('"price_cents": 0}}')


def test_all_problems_are_told_at_once():
    assert len(problems({**EXTERNAL, "SERVICE_PORT": "x", "SERVICE_WORKERS": "y", "SERVICE_LOG_LEVEL": "z"})) == 3


def test_an_empty_variable_counts_as_unset():
    assert load_settings({**EXTERNAL, "SERVICE_PORT": "", "SERVICE_TEST_TOKEN": ""}).port == 8000


def test_the_test_clock_needs_a_test_token():
    """G-120: without the token the clock stays real, whatever the switch says."""
    assert not load_settings({**EXTERNAL, "SERVICE_TEST_CLOCK": "1"}).test_clock
    assert load_settings({**EXTERNAL, "SERVICE_TEST_CLOCK": "1", "SERVICE_TEST_TOKEN": "x1y2z3x1y2z3x1y2"}).test_clock


def test_the_commit_is_what_git_prints():
    """Short or whole, in either case; without it the service says that it does not know (R-DISC-04)."""
    assert load_settings(EXTERNAL).deploy_sha is None
    assert load_settings({**EXTERNAL, "SERVICE_DEPLOY_SHA": " 81985AB "}).deploy_sha == "81985ab"
    assert load_settings({**EXTERNAL, "SERVICE_DEPLOY_SHA": "0" * 64}).deploy_sha == "0" * 64


def test_issuers_of_ci_have_a_kind():
    """G-171: each exactly as its tokens name it."""
    value = "gitlab=https://gitlab.acme.example, github=https://ci.acme.example/_services/token,"
    assert load_settings({**EXTERNAL, "SERVICE_CI_ISSUERS": value}).ci_issuers == {
        "https://gitlab.acme.example": "gitlab",
        "https://ci.acme.example/_services/token": "github",
    }
    assert load_settings(EXTERNAL).ci_issuers is None


def test_each_rate_limit_is_switched_by_itself():
    """G-012: `on` and `off` mean all of them; a list names what is different."""

    def limits(value: str) -> dict[str, int]:
        return load_settings({**EXTERNAL, "SERVICE_RATE_LIMITS": value}).rate_limits

    assert limits("on") == limits("1") == limits("key=600") == RATE_LIMITS
    assert limits("off") == limits("0") == {}
    assert limits("ingest=off") == {name: limit for name, limit in RATE_LIMITS.items() if name != "ingest"}
    assert limits(" Key = 1200, device_poll=OFF ,internal=1") == {
        **{name: limit for name, limit in RATE_LIMITS.items() if name != "device_poll"},
        "key": 1200,
        "internal": 1,
    }


def test_plans_are_laid_over_the_defaults():
    plan = {"events": 1, "retention_days": 2, "price_cents": 3}
    loaded = load_settings({**EXTERNAL, "SERVICE_PLANS": json.dumps({"team": plan, "pro": plan})}).plans
    assert sorted(loaded) == ["free", "pro", "scale", "team"]
    assert loaded["pro"].events == 1


def test_the_default_address_is_one_that_a_browser_reaches():
    assert load_settings({**EXTERNAL, "SERVICE_HOST": "::"}).base_url == "http://127.0.0.1:8000"
    assert load_settings({**EXTERNAL, "SERVICE_HOST": "::1"}).base_url == "http://[::1]:8000"
    assert load_settings({**EXTERNAL, "SERVICE_BASE_URL": "https://x.example/"}).base_url == "https://x.example"


def test_no_secret_shows():
    """Neither printing the settings nor their documentation shows one."""
    settings = load_settings(
        {**EXTERNAL, "SERVICE_PAYMENT_API_KEY": "sk_live_1", "SERVICE_TEST_TOKEN": "t" + os.urandom(16).hex()}
    )
    for shown in (repr(settings), str(settings)):
        assert ":word@" not in shown
        assert "sk_live_1" not in shown
        assert EXTERNAL["SERVICE_INTERNAL_TOKEN"] not in shown


def test_every_variable_is_documented_and_known():
    table = settings_table()
    for variable in VARIABLES:
        assert f"`{variable.name}`" in table
        assert variable.doc.endswith(".")
    known = {variable.name for variable in VARIABLES} | CLIENT_VARIABLES | {"SERVICE_SIGNING_KEY_FILE"}
    assert unknown_variables({**dict.fromkeys(known, "x"), "SERVICE_PROT": "1", "PATH": "y"}) == ["SERVICE_PROT"]


def test_a_place_that_may_not_be_written_to_is_named_to_whoever_would_make_something_there(tmp_path, monkeypatch):
    """And to nobody who only reads; root may write anywhere, so what the system would say stands in its place."""
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    assert unfit(tmp_path / "data", makes=False) is None
    told = unfit(tmp_path / "data", makes=True)
    assert told is not None
    assert told.startswith(f"{tmp_path / 'data'} cannot be the data directory")
    assert told.endswith(f"may not write to {tmp_path}.")


def test_a_setting_is_declared_in_one_place():
    """Its field has the type, the variable, the reader, the default and the words; two fields follow from others."""
    fields = [field.name for field in msgspec.structs.fields(Settings)]
    assert [name for name in fields if name not in {"embedded", "self_hosted"}] == [one.field for one in VARIABLES]
    assert [one.name for one in VARIABLES] == [f"SERVICE_{one.field.upper()}" for one in VARIABLES]
    assert {one.needs for one in VARIABLES} - {""} <= set(fields)
