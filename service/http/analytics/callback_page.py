"""The page where a human comes back from the analytics provider: they compare two codes, and answer (G-164).

It holds the state and a token for its one form, no code of the provider and no script.
"""

from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from typing import NamedTuple

from service.analytics.returning import ALLOW, Compare, Ending, ProviderRests
from service.http.answer.page import frame

TITLE = "Connect your analytics provider"

_QUESTION = """<p>You have granted read access. The tool that asked for it has shown you a code. Is it this one?</p>
<p><code class="code">{code}</code></p>
{nearby}<p>If you did not start this yourself, or the codes differ, refuse. Nobody can read anything then.</p>
<form method="post" action="callback" autocomplete="off">
<input type="hidden" name="state" value="{state}">
<input type="hidden" name="token" value="{token}">
<p><button name="decision" value="{allow}">The codes are equal: connect</button>
<button name="decision" value="deny">Refuse</button></p>
</form>
"""

_NEARBY = """<p>This is a loopback address: the provider has sent you to your own machine. That works only because your
browser and the service are on one machine. From another machine, the sign-in does not come back.</p>
"""


class _End(NamedTuple):
    status: HTTPStatus
    text: str


_AGAIN = "Go back to the tool that asked you. It can start another sign-in."
_ENDS: Mapping[Ending, _End] = {
    Ending.CONNECTED: _End(HTTPStatus.OK, "Connected. Go back to the tool that asked you."),
    Ending.DENIED: _End(HTTPStatus.OK, "Refused. Nothing can be read."),
    Ending.TOO_MUCH: _End(
        HTTPStatus.OK, f"The provider granted more than read access. So the grant was refused and given back. {_AGAIN}"
    ),
    Ending.TOO_LITTLE: _End(
        HTTPStatus.OK,
        "The grant does not cover the project and region that were asked for, with project:read and query:read. So "
        f"it was refused and given back. {_AGAIN}",
    ),
    Ending.PROVIDER_ERROR: _End(HTTPStatus.OK, f"The provider ended the sign-in. {_AGAIN}"),
    Ending.NO_ANSWER: _End(HTTPStatus.BAD_GATEWAY, f"The provider did not confirm your grant. {_AGAIN}"),
    Ending.NO_TIME: _End(HTTPStatus.GATEWAY_TIMEOUT, f"The provider did not confirm your grant in time. {_AGAIN}"),
    Ending.OVER: _End(
        HTTPStatus.GONE,
        "This address was used, or has expired. The tool that asked you knows how the sign-in ended, and can start "
        "another.",
    ),
}


_RESTS = _End(HTTPStatus.SERVICE_UNAVAILABLE, f"The provider takes no requests just now. {_AGAIN}")


def render(shown: Compare | Ending | ProviderRests) -> tuple[int, bytes]:
    """Write the page, with its status: the question, or how the sign-in ended."""
    if not isinstance(shown, Compare):
        end = _RESTS if isinstance(shown, ProviderRests) else _ENDS[shown]
        return end.status, frame(TITLE, f"<p>{escape(end.text)}</p>\n")
    content = _QUESTION.format(
        code=escape(shown.user_code),
        nearby=_NEARBY if shown.nearby else "",
        state=escape(shown.state),
        token=escape(shown.token),
        allow=ALLOW,
    )
    return HTTPStatus.OK, frame(TITLE, content)
