"""Look-ups of names: a DNS server that hangs stops nobody else (G-150)."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from service.egress import lookups as looking_up
from service.egress.lookups import (
    MOST_OF_ACCOUNT,
    OF_OPERATOR,
    SUSPECTS_OF_ACCOUNT,
    THREADS,
    THREADS_OF_ACCOUNT,
    WAITING,
    Lookups,
    NameTooSlow,
    resolve,
)
from service.fairness.turns import ReadNotDone


class Resolver:
    """Knows two names, and hangs at any that begins with `slow` until it is released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.release = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, host: str) -> list[str]:
        with self._lock:
            self.asked.append(host)
        if host.startswith("slow"):
            self.release.wait(60)
        if host == "unknown":
            raise socket.gaierror
        return ["192.0.2.1", "192.0.2.1", "2001:db8::1"]

    async def until_asked(self, number: int) -> None:
        """Wait until so many look-ups have begun."""
        async with asyncio.timeout(30):
            while len(self.asked) < number:  # noqa: ASYNC110 - threads count them
                await asyncio.sleep(0.01)


@pytest.fixture
def resolver() -> Iterator[Resolver]:
    resolver = Resolver()
    yield resolver
    resolver.release.set()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look-ups have a tenth of their time."""
    monkeypatch.setattr(looking_up, "LOOKUP_SECONDS", looking_up.LOOKUP_SECONDS / 10)


FOUND = (ip_address("192.0.2.1"), ip_address("2001:db8::1"))


async def test_every_address_once(resolver: Resolver) -> None:
    """In the order in which they were found; none for a name that does not resolve."""
    lookups = Lookups(resolver)
    assert await lookups.find("a", "name") == FOUND
    assert await lookups.find("a", "unknown") == ()
    assert resolver.asked == ["name", "unknown"]


async def test_the_system_resolves() -> None:
    """The default asks the resolver of the system; a name of a reserved domain is unknown everywhere."""
    assert set(resolve("localhost")) <= {"127.0.0.1", "::1"}
    assert await Lookups().find("a", "does-not-exist.invalid") == ()
    assert await Lookups().find("a", f"{'a' * 70}.example") == (), "an impossible name is unknown as well"


async def test_one_who_hangs_stops_nobody_else(resolver: Resolver) -> None:
    """An account has two threads; the names of others resolve while both hang, and its own wait."""
    lookups = Lookups(resolver)
    hanging = [asyncio.create_task(lookups.find("a", f"slow-{number}")) for number in range(4)]
    await resolver.until_asked(THREADS_OF_ACCOUNT)
    for number in range(20):
        assert await lookups.find("b", f"name-{number}") == FOUND
    assert [host for host in resolver.asked if host.startswith("slow")] == ["slow-0", "slow-1"]
    resolver.release.set()
    assert await asyncio.gather(*hanging) == [FOUND] * 4


async def test_who_gives_up_frees_no_place(resolver: Resolver) -> None:
    """A look-up cannot be stopped, so its account would take thread after thread."""
    lookups = Lookups(resolver)
    for _ in range(3):
        for number in range(2 * THREADS_OF_ACCOUNT):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await lookups.find("a", f"slow-{number}")
    assert resolver.asked == ["slow-0", "slow-1"]
    resolver.release.set()
    assert await lookups.find("a", "name") == FOUND, "the places come back with their threads"


@pytest.mark.usefixtures("hurried")
async def test_a_name_that_hangs_delays_no_other_of_its_account(resolver: Resolver) -> None:
    """Whoever asks for it is told after the time of a look-up, and at once while its thread hangs."""
    lookups = Lookups(resolver)
    hanging = [lookups.find("a", f"slow-{number}") for number in range(THREADS_OF_ACCOUNT)]
    for outcome in await asyncio.gather(*hanging, return_exceptions=True):
        assert isinstance(outcome, NameTooSlow)
    assert await lookups.find("a", "name") == FOUND
    for _ in range(50):
        with pytest.raises(NameTooSlow):
            await lookups.find("a", "slow-0")
    assert resolver.asked == ["slow-0", "slow-1", "name"], "one thread a name"
    resolver.release.set()
    await until_found(lookups, "a", "slow-0")


@pytest.mark.usefixtures("hurried")
async def test_names_that_were_late_leave_threads_to_others(resolver: Resolver) -> None:
    """With as many names that hang as one may have webhooks, a new name of the account is still resolved."""
    lookups = Lookups(resolver)
    names = [f"slow-{number}" for number in range(20)]
    for name in names:
        with pytest.raises(NameTooSlow):
            await lookups.find("a", name)
    assert len(resolver.asked) == MOST_OF_ACCOUNT
    with pytest.raises(NameTooSlow):
        await lookups.find("a", "name")
    resolver.release.set()
    await until_found(lookups, "a", "name")
    await until_found(lookups, "a", names[0])
    resolver.release.clear()
    resolver.asked.clear()
    for name in names[1 : MOST_OF_ACCOUNT - 1]:
        with pytest.raises(NameTooSlow):
            await lookups.find("a", name)
    assert len(resolver.asked) == SUSPECTS_OF_ACCOUNT
    assert await lookups.find("a", "name") == FOUND


@pytest.mark.usefixtures("hurried")
async def test_many_accounts_whose_names_hang_leave_threads_to_another(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of stuck threads no account gets a second one while there are many, and there is an end of them."""
    few = 8
    monkeypatch.setattr(looking_up, "MANY", few)
    lookups = Lookups(resolver)
    for number in range(few):
        with pytest.raises(NameTooSlow):
            await lookups.find(f"h{number}", "slow")
    with pytest.raises(NameTooSlow):
        await lookups.find("h0", "name")
    for number in range(few):
        assert await lookups.find(f"n{number}", "name") == FOUND
        with pytest.raises(NameTooSlow):
            await lookups.find(f"n{number}", "slow")
    with pytest.raises(NameTooSlow):
        await lookups.find("new", "name")


async def fill(lookups: Lookups, resolver: Resolver) -> list[asyncio.Task[object]]:
    """Let the names of tenants take every thread of theirs, and more wait."""
    hanging = [
        asyncio.create_task(lookups.find(f"h{number % THREADS}", f"slow-{number}")) for number in range(3 * THREADS)
    ]
    await resolver.until_asked(THREADS)
    return hanging


async def test_the_operator_s_hosts_have_threads_of_their_own(resolver: Resolver) -> None:
    """Tenants' names that hang delay none of them, and neither does another host of the operator."""
    lookups = Lookups(resolver)
    hanging = await fill(lookups, resolver)
    own = [asyncio.create_task(lookups.find(OF_OPERATOR, f"slow-{number}")) for number in range(THREADS - 1)]
    await resolver.until_asked(2 * THREADS - 1)
    async with asyncio.timeout(1):
        assert await lookups.find(OF_OPERATOR, "issuer") == FOUND
        assert await asyncio.gather(*(lookups.find(OF_OPERATOR, "witness") for _ in range(50))) == [FOUND] * 50
    resolver.release.set()
    await asyncio.gather(*hanging, *own, return_exceptions=True)


async def until_found(lookups: Lookups, account: str, host: str) -> None:
    """Wait until a name is resolved, as the threads of before come to their ends."""
    async with asyncio.timeout(30):
        while True:
            try:
                assert await lookups.find(account, host) == FOUND
            except NameTooSlow:
                await asyncio.sleep(0.01)
            else:
                return


async def test_accounts_take_turns(resolver: Resolver) -> None:
    """With every thread taken, whoever waits is served in turn; a long line delays nobody else's look-up."""
    lookups = Lookups(resolver)
    accounts = THREADS // THREADS_OF_ACCOUNT
    hanging = [
        asyncio.create_task(lookups.find(f"h{number % accounts}", f"slow-{number}")) for number in range(THREADS)
    ]
    await resolver.until_asked(THREADS)
    many = [asyncio.create_task(lookups.find("a", f"a-{number}")) for number in range(WAITING)]
    await asyncio.sleep(0)
    one = asyncio.create_task(lookups.find("b", "b-0"))
    await asyncio.sleep(0)
    resolver.release.set()
    await asyncio.gather(*hanging, *many, one)
    begun = resolver.asked[THREADS:]
    assert begun.index("b-0") <= THREADS, begun


async def test_the_line_of_an_account_is_bounded(resolver: Resolver) -> None:
    """One more than may wait is told so at once; another account is not."""
    lookups = Lookups(resolver)
    tasks = [asyncio.create_task(lookups.find("a", f"slow-{number}")) for number in range(THREADS_OF_ACCOUNT + WAITING)]
    await resolver.until_asked(THREADS_OF_ACCOUNT)
    with pytest.raises(ReadNotDone):
        await lookups.find("a", "name")
    assert await lookups.find("b", "name") == FOUND
    resolver.release.set()
    await asyncio.gather(*tasks)


async def test_a_machine_without_threads(resolver: Resolver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up that gets no thread is not done, and its place is free again."""
    lookups = Lookups(resolver)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("no thread")))
        for _ in range(THREADS_OF_ACCOUNT + 1):
            with pytest.raises(ReadNotDone):
                await lookups.find("a", "name")
    assert await lookups.find("a", "name") == FOUND


def test_a_loop_that_ends_first(resolver: Resolver) -> None:
    """A thread whose loop is gone ends in silence, and the process waits for none of them."""

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await Lookups(resolver).find("a", "slow")

    asyncio.run(give_up())
    [thread] = [thread for thread in threading.enumerate() if thread.name == "service-lookup"]
    assert thread.daemon
    resolver.release.set()
    thread.join(30)
    assert not thread.is_alive()
