"""Where calls through the guard lead: never inside, however it is written, nor through a proxy (G-150)."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from service.egress.exchange import NotReceived, Received
from service.egress.guard import CALLERS, OPERATOR, reach_of_webhooks
from tests.service.egress.test_guard import OK, POST, call, guard, leading_to
from tests.support.receiver import answers, receiving


async def test_one_look_up_an_attempt() -> None:
    """A name that leads to a public address at first and inside at the second look never gets a second look."""
    asked: list[str] = []

    def rebinding(host: str) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    async with receiving(answers(OK)) as receiver:
        through = guard(rebinding)
        assert await call(receiver, through=through) == Received(200, b"hi", cut=False)
        assert asked == ["hook.example"]
        assert await call(receiver, through=through) == NotReceived("refused"), "plain HTTP stays on loopback"
        assert asked == ["hook.example"] * 2
        assert receiver.connections == 1


INSIDE = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "127.0.0.1.",
    "１２７.０.０.１",
    "①②⑦.⓪.⓪.①",
    "0.0.0.0",  # noqa: S104 - an address to refuse
    "0",
    "[::1]",
    "[::]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::1]",
    "[fec0::1]",
    "localhost",
    "user@127.0.0.1",
    "example.com@127.0.0.1",
    "127.0.0.1\\@example.com",
    "127.0.0.1%00.example.com",
    "hook.example",
]


@pytest.mark.parametrize("host", INSIDE)
@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_a_listener_inside_sees_nothing(host: str, scheme: str) -> None:
    """No way to write an address of this machine, and no name that leads there, makes a connection."""
    with socket.create_server(("", 0)) as four, socket.create_server(("::", 0), family=socket.AF_INET6) as six:
        through = guard(leading_to("127.0.0.1", "::1"))
        for listener in (four, six):
            listener.settimeout(0)
            url = f"{scheme}://{host}:{listener.getsockname()[1]}/"
            assert await through.call(url, POST, account="a", reach=CALLERS) == NotReceived("refused")
            assert await through.refusal(url, "a", CALLERS) is not None
            with pytest.raises(BlockingIOError):
                listener.accept()


@pytest.mark.parametrize(
    "addresses",
    [
        ("8.8.8.8", "127.0.0.1"),
        ("127.0.0.1", "8.8.8.8"),
        ("2001:4860:4860::8888", "::1"),
        ("8.8.8.8", "64:ff9b::7f00:1"),
        ("8.8.8.8", "169.254.169.254"),
        ("8.8.8.8", "fe80::1%1"),
    ],
)
async def test_a_mix_is_refused(addresses: tuple[str, ...]) -> None:
    """One address that may not be called is enough, wherever it stands among the others."""
    async with receiving(answers(OK)) as receiver:
        through = guard(leading_to(*addresses))
        url = f"https://mixed.example:{receiver.port}/"
        assert await through.call(url, POST, account="a", reach=CALLERS) == NotReceived("refused")
        assert await through.refusal(url, "a", CALLERS) == "must lead to public addresses"
        assert receiver.connections == 0


async def test_what_may_be_registered() -> None:
    """Public literals and names; a name that does not resolve, or whose server hangs, is judged when it is called."""
    public, nowhere = guard(leading_to("8.8.8.8", "2001:4860:4860::8888")), guard(leading_to())
    assert await public.refusal("https://hook.example/in", "a", CALLERS) is None
    assert await nowhere.refusal("https://8.8.8.8/", "a", CALLERS) is None
    assert await nowhere.refusal("https://hook.example/in", "a", CALLERS) is None
    assert await nowhere.call("https://hook.example/in", POST, account="a", reach=CALLERS) == NotReceived(
        "unknown_name"
    )
    assert await nowhere.refusal("https://u@hook.example/in", "a", CALLERS) == "must not hold user information"


@pytest.mark.parametrize("url", ["http://hook.example", "https://hook.example:6379", "https://hook.example:22"])
async def test_a_form_that_is_refused_is_not_looked_up(url: str) -> None:
    """Neither when it is registered nor when it is called."""
    asked: list[str] = []
    through = guard(lambda host: asked.append(host) or ["8.8.8.8"])
    assert await through.call(url, POST, account="a", reach=CALLERS) == NotReceived("refused")
    assert await through.refusal(url, "a", CALLERS) is not None
    assert asked == []


async def test_development() -> None:
    """Addresses and ports are lifted, and http for what leads to loopback alone."""
    assert reach_of_webhooks(allow_private=False) is CALLERS
    reach = reach_of_webhooks(allow_private=True)
    home, lan = guard(leading_to("127.0.0.1", "::1")), guard(leading_to("127.0.0.1", "10.0.0.1"))
    nowhere = guard(leading_to())
    told = "must begin with https://, unless it leads to loopback"
    assert await home.refusal("http://localhost:9/never", "a", reach) is None
    assert await home.refusal("https://127.0.0.1:9", "a", reach) is None
    assert await lan.refusal("https://lan.example:22", "a", reach) is None
    assert await lan.refusal("http://lan.example", "a", reach) == told
    assert await lan.call("http://lan.example", POST, account="a", reach=reach) == NotReceived("refused")
    assert await nowhere.refusal("http://gone.example", "a", reach) == told
    assert await nowhere.refusal("https://gone.example", "a", reach) is None
    for scheme in ("http", "https"):
        called = await nowhere.call(f"{scheme}://gone.example", POST, account="a", reach=reach)
        assert called == NotReceived("unknown_name")


async def test_nothing_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a proxy nor the credentials of a netrc."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine hook.example login me password hush\ndefault login me password hush\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    async with receiving(answers(OK)) as proxy, receiving(answers(OK)) as receiver:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            monkeypatch.setenv(name.lower(), f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert await call(receiver, reach=OPERATOR) == Received(200, b"hi", cut=False)
        assert proxy.connections == 0
        assert b"authorization" not in receiver.requests[0].lower()
