"""`service console open`: a link to the server that runs, and none into an empty account of somebody else's address."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psycopg
from click.testing import CliRunner, Result

from service.accounts import membership
from service.cli import main
from service.eventstore.store import EventStore
from service.registry import registry
from statemachines.accounts.person import Identity
from tests.support.server import ServerFactory


def run(email: str, env: dict[str, str]) -> Result:
    unset = dict.fromkeys(name for name in os.environ if name.startswith("SERVICE_"))
    return CliRunner().invoke(main, ["console", "open", "--email", email, "--json"], env={**unset, **env})


def opened(env: dict[str, str], **more: str) -> tuple[str, str]:
    """The address of a link, and what was said beside it."""
    done = run("ann@example.com", env | more)
    assert done.exit_code == 0, done.output
    link = urlsplit(json.loads(done.stdout)["link"])
    return f"{link.scheme}://{link.netloc}", done.stderr


def test_the_link_leads_to_the_server_that_runs(server_factory: ServerFactory, tmp_path: Path) -> None:
    """The command knows its data directory alone. The link opens the server's page, on its own port."""
    server = server_factory.prepare(data_dir=tmp_path / "data")
    server.start()
    data = {"SERVICE_DATA_DIR": str(tmp_path / "data")}
    address, said = opened(data)
    assert address == server.base_url
    assert "does not run" not in said
    assert httpx2.get(f"{address}/console/enter").status_code == 200
    server.stop()
    address, said = opened(data)
    assert "does not run on this data directory. Start it with `service serve`" in said


def test_beside_another_database_the_variables_say_where(database_url: str, tmp_path: Path) -> None:
    """SERVICE_BASE_URL, which the server reads too, before SERVICE_URL, which clients read."""
    env = {"SERVICE_DATABASE_URL": database_url, "SERVICE_DATA_DIR": str(tmp_path)}
    assert opened(env)[0] == "http://127.0.0.1:8000"
    assert opened(env, SERVICE_URL="https://clients.example/")[0] == "https://clients.example"
    both = opened(env, SERVICE_URL="https://clients.example", SERVICE_BASE_URL="https://service.example")
    assert both[0] == "https://service.example"


def test_an_address_of_a_person_who_signs_in_otherwise_is_refused(database_url: str, tmp_path: Path) -> None:
    """A link would lead into another account, which is empty. Nothing is made. Who has both gets the own one's link."""
    env = {"SERVICE_DATABASE_URL": database_url, "SERVICE_DATA_DIR": str(tmp_path)}

    async def key_for(identity: Identity) -> str:
        store = EventStore(database_url, registry())
        await store.start()
        try:
            return (await membership.create_key(store, identity)).user_id
        finally:
            await store.stop()

    elsewhere = Identity("oidc", "https://issuer.example 7", "Ann@example.com", email_verified=True)
    user_id = asyncio.run(key_for(elsewhere))
    for address in ("Ann@example.com", "ann@example.com"):
        refused = run(address, env)
        assert refused.exit_code == 1
        assert f"is the address of {user_id}, who signs in at an identity provider" in refused.stderr
    with psycopg.connect(database_url) as sql:
        assert sql.execute("select count(*) from people").fetchall() == [(1,)]
        assert sql.execute("select count(*) from sessions").fetchall() == [(0,)]
    assert run("bob@example.com", env).exit_code == 0
    own = asyncio.run(key_for(membership.email_identity("ann@example.com")))
    made = run("ann@example.com", env)
    assert json.loads(made.stdout)["user_id"] == own
