"""A person's own sessions in the console: listed, and ended by the person they belong to (extensions)."""

import re

from litestar.di import NamedDependency
from litestar.params import FromPath

from schemas.accounts import SessionEndedBody, SessionList
from schemas.kernel.shape import PageQuery
from service.accounts import person, show
from service.accounts import sign_in as commands
from service.auth.authority import PrincipalKind
from service.auth.secrets import USER_CODE_ALPHABET
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import PageEnd
from service.http.answer.page import frame
from service.http.answer.paging import page, start_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from statemachines.accounts.sign_in import normal_user_code


@groups.AUTH.get("/v1/auth/sessions", "List your open sessions in the console")
@Who(KEY)
@Docs(SessionList, extension=True)
async def list_sessions(call: Call, params: NamedDependency[PageQuery]) -> Answer:
    """List the caller's open sessions, newest first."""
    start, principal = start_of(params), call.principal
    await call.services.authenticator.uses.flush()  # so that the use by this very request shows
    found = await person.sessions_of(call.services.store, call.user_id, start, params.limit + 1)
    sessions, cursor = page(found, params, lambda used: PageEnd(used.session.created_at, used.session.id))
    current = principal.id if principal.kind is PrincipalKind.SESSION else None
    return Answer(200, show.session_list(sessions, current, cursor))


@groups.AUTH.delete("/v1/auth/sessions/{session_id}", "End one of your sessions in the console")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(SessionEndedBody, errors=("not_found",), extension=True)
async def end_session(call: Call, session_id: FromPath[str]) -> Outcome:
    """End a session. From the answer on nothing that rests on it commits."""
    intent = commands.end(call.user_id, session_id, "revoked")
    outcome = await call.carry_out(intent, lambda ended: Answer(200, show.session_ended(ended)))
    call.services.authenticator.forget()
    return outcome


ENDPOINTS = [list_sessions, end_session]


# The page at the verification address: how a sign-in is authorised when no hosted web app does it (G-020). The page
# holds no secret and no script: it shows a code and the commands to type, or asks for the code by a form that only
# leads to the same page. Whoever runs the commands needs the operator's access to the machine, or the internal
# token; seeing the page gives neither.

_CODE = re.compile(rf"[{USER_CODE_ALPHABET}]{{8}}")

TITLE = "Authorise a device"

_QUESTION = """<form method="get" action="/device">
<p><label for="user_code">The code that your device shows:</label></p>
<p><input class="code" id="user_code" name="user_code" required autofocus autocomplete="off" autocapitalize="characters"
 spellcheck="false" maxlength="9" size="9" placeholder="XXXX-XXXX"></p>
<p><button>Go on</button></p>
</form>
"""

_NO_SUCH_CODE = "<p>A code has eight letters, like XXXX-XXXX.</p>\n"

_INSTRUCTIONS = """<p>A device asks to sign in with this code:</p>
<p><code class="code">{code}</code></p>
<p>Go on only if you started this sign-in yourself and the device shows the same code.</p>
<h2>In the console</h2>
<p><a href="/console/device?user_code={code}">Sign in to the console and confirm the code there.</a></p>
<h2>On the machine of the service</h2>
<pre>service keys authorize {code} --email you@example.com</pre>
<p>Refuse it with <code>service keys deny {code}</code>.</p>
<h2>From a web app of your own</h2>
<p>Sign the person in there, then send their identity with the internal token:</p>
<pre>curl -X POST {base_url}/v1/auth/device/authorize \\
  -H "Authorization: Bearer $SERVICE_INTERNAL_TOKEN" -H "Content-Type: application/json" \\
  -d '{{"user_code": "{code}", "identity": {{"provider": "email", "subject": "you@example.com", \
"email": "you@example.com"}}}}'</pre>
<p>The device notices by itself and receives its key. The code lives for 15 minutes.</p>
"""


def code_of(user_code: str | None) -> str | None:
    """A code as it is shown. None for a text that cannot be one."""
    letters = normal_user_code(user_code or "")
    return f"{letters[:4]}-{letters[4:]}" if _CODE.fullmatch(letters) else None


def render(base_url: str, user_code: str | None) -> bytes:
    """Write the page: what to do about a code, or the question for one. A text that cannot be a code is not shown."""
    code = code_of(user_code)
    if code is not None:
        content = _INSTRUCTIONS.format(code=code, base_url=base_url)
    else:
        content = (_NO_SUCH_CODE if user_code else "") + _QUESTION
    return frame(TITLE, content)
