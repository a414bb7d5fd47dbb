"""Where the provider finds our OAuth client, and where it sends the human back to (G-164)."""

from http import HTTPStatus
from urllib.parse import parse_qs

import msgspec
from litestar.di import NamedDependency
from litestar.params import RequestBody

from schemas.analytics import CallbackForm, CallbackQuery, ClientMetadata
from service.analytics import returning
from service.analytics.connecting.registering import CALLBACK_PATH, DOCUMENT_PATH
from service.auth.refusals import InvalidPayload, ServiceUnavailable
from service.eventstore.declare.commands import Answer, Outcome
from service.http.analytics import callback_page
from service.http.answer.errors import UnsupportedMediaType
from service.http.answer.page import FORM, HEADERS, HTML
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.forms import media_of
from service.http.declare.operations import ANYONE

MAX_FORM = 4096
"""Bytes of the form that our page sends."""
MAX_FIELDS = 10
CACHED = {"cache-control": "public, max-age=3600"}
PAGES = {200: str, 410: str, 502: str, 503: str, 504: str}


@groups.AUTH.get(DOCUMENT_PATH, "Read the OAuth client of this service, for an analytics provider")
@Who(ANYONE)
@Fencing(rate="none")
@Docs(ClientMetadata, extension=True, sealed=True)
async def get_oauth_client(call: Call) -> Answer:
    """Show the document that is our client id. Raises ServiceUnavailable where the operator has another, or none."""
    document = call.services.providers.oauth.registration.document
    if document is None:
        raise ServiceUnavailable(
            "This service has no OAuth client of its own.",
            next_action=(
                "The operator sets a public https address in SERVICE_BASE_URL, and leaves SERVICE_PROVIDER_CLIENT_ID "
                "unset."
            ),
        )
    return Answer(200, document, CACHED)


@groups.AUTH.get(CALLBACK_PATH, "Come back from the analytics provider, as a page")
@Who(ANYONE)
@Fencing(mutation=True, rate="device_poll")
@Docs(PAGES, extension=True, flows=frozenset({"provider"}), content_type=HTML)
async def return_from_provider(call: Call, params: NamedDependency[CallbackQuery]) -> Outcome:
    """Use the state up, and ask the human to compare the codes. A HEAD changes nothing."""
    if not params.state or not (params.code or params.error):
        raise InvalidPayload(
            "The provider sends a state, and a code or an error.", missing=[] if params.state else ["state"]
        )
    if call.scope["method"] == "HEAD":
        return Outcome(HTTPStatus.OK, b"", HEADERS)
    services = call.services
    return _page(
        await returning.come_back(services.store, services.providers.oauth, params.state, params.code, params.error)
    )


@groups.AUTH.post(CALLBACK_PATH, "Answer the page: connect, or refuse")
@Who(ANYONE)
@Body(max_body=MAX_FORM, media_type=FORM)
@Fencing(rate="device_poll")
@Docs(PAGES, extension=True, flows=frozenset({"provider"}), content_type=HTML)
async def answer_provider_page(call: Call, data: RequestBody[bytes]) -> Outcome:
    """Exchange the code if the human found the codes equal. Anything else is a refusal."""
    form = _read_form(call, data)
    services = call.services
    return _page(
        await returning.answer(services.store, services.providers.oauth, form.state, form.token, form.decision)
    )


def _read_form(call: Call, data: bytes) -> CallbackForm:
    """Read the form of our page. Raises UnsupportedMediaType, and InvalidPayload for anything but that form."""
    if media_of({"content-type": call.header("content-type") or ""}) != FORM:
        raise UnsupportedMediaType
    try:
        text = data.decode("ascii")
        fields = parse_qs(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=MAX_FIELDS)
        if any(len(values) > 1 or "\x00" in values[0] for values in fields.values()):
            raise InvalidPayload("A field of the form comes twice, or holds the character NUL.")
        return msgspec.convert({name: values[0] for name, values in fields.items()}, CallbackForm)
    except (ValueError, msgspec.ValidationError):  # a UnicodeError too
        raise InvalidPayload("This is not the form of our page.", missing=["state", "token", "decision"]) from None


def _page(shown: returning.Compare | returning.Ending | returning.ProviderRests) -> Outcome:
    status, body = callback_page.render(shown)
    later = {"retry-after": str(shown.retry_after)} if isinstance(shown, returning.ProviderRests) else {}
    return Outcome(status, body, {**HEADERS, **later})


ENDPOINTS = [get_oauth_client, return_from_provider, answer_provider_page]
