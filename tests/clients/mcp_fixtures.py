"""The fixtures of the official conformance suite of MCP on our protocol layer, and a relay that adds a credential.

The suite asks for tools, prompts and resources of its own. They are mounted here, and nowhere in the service.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import msgspec

from service.auth.refusals import Refusal
from service.http.edge.origin import check_origin
from service.http.mcp.protocol import CAPABILITIES_KEY, INVALID_PARAMS, Declared, Message, RpcFault, answer

Json = dict[str, Any]

MISSING_CAPABILITY = -32021
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = base64.b64encode(b"RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00").decode()
CACHED: Json = {"ttlMs": 1000, "cacheScope": "public"}


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def embedded(uri: str, kind: str, value: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": value}}


def elicit(message: str, member: str, kind: str = "string") -> Json:
    schema = {"type": "object", "properties": {member: {"type": kind}}, "required": [member]}
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def sample(message: str) -> Json:
    messages = [{"role": "user", "content": text(message)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 50}}


ROOTS: Json = {"method": "roots/list", "params": {}}
IMAGE: Json = {"type": "image", "data": PNG, "mimeType": "image/png"}
CONTENT: Mapping[str, list[Json]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "test_logging_tool": [text("Nothing is logged unless a level is asked for.")],
    "test_streaming_elicitation": [text("One answer, and no request of the server.")],
    "test_tool_with_progress": [text("Done at once.")],
}
ASKS: Mapping[str, list[Json]] = {
    "test_input_required_result_elicitation": [{"user_name": elicit("What is your name?", "name")}],
    "test_input_required_result_sampling": [{"capital_question": sample("What is the capital of France?")}],
    "test_input_required_result_list_roots": [{"client_roots": ROOTS}],
    "test_input_required_result_request_state": [{"confirm": elicit("Please confirm", "ok", "boolean")}],
    "test_input_required_result_tampered_state": [{"confirm": elicit("Please confirm", "ok", "boolean")}],
    "test_input_required_result_multiple_inputs": [
        {
            "user_name": elicit("What is your name?", "name"),
            "greeting": sample("Generate a greeting"),
            "client_roots": ROOTS,
        }
    ],
    "test_input_required_result_multi_round": [
        {"step1": elicit("Step 1: What is your name?", "name")},
        {"step2": elicit("Step 2: What is your favorite color?", "color")},
    ],
    "test_input_required_result_capabilities": [{"question": sample("Say something")}],
}
"""What a tool asks its client for, one round after the other."""
PROMPTS: Mapping[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}
RESOURCES: Mapping[str, Json] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
}
CAPABILITIES: Json = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}
TEMPLATE = ("test://template/", "/data")


def seal(step: int) -> str:
    """The state of a round, which nobody else can make."""
    return f"{step}.{hashlib.sha256(f'sealed {step}'.encode()).hexdigest()}"


def missing(params: Json, asked: Json) -> bool:
    """Whether a client has not yet answered each question with an object."""
    given = params.get("inputResponses")
    return not (isinstance(given, dict) and all(isinstance(given.get(name), dict) and given[name] for name in asked))


def ask(rounds: list[Json], params: Json) -> Json | None:
    """The next question to a client, None when it has answered all. Raises RpcFault for a state that is not ours."""
    state = params.get("requestState")
    if state is not None and state not in {seal(step) for step in range(len(rounds))}:
        raise RpcFault(INVALID_PARAMS, "The requestState is not one of this server.")
    step = 0 if state is None else int(state.partition(".")[0])
    if missing(params, rounds[step]):
        return {"resultType": "input_required", "inputRequests": rounds[step], "requestState": seal(step)}
    if step + 1 < len(rounds):
        following = step + 1
        return {"resultType": "input_required", "inputRequests": rounds[following], "requestState": seal(following)}
    return None


async def list_tools(_: Message) -> Json:
    names = [*CONTENT, *ASKS, "test_error_handling", "test_missing_capability"]
    schema = {"type": "object", "properties": {}}
    return {"tools": [{"name": name, "description": name, "inputSchema": schema} for name in names], **CACHED}


async def call_tool(message: Message) -> Json:
    name, params = message.params["name"], message.params
    capabilities = params["_meta"].get(CAPABILITIES_KEY, {})
    if name == "test_missing_capability" and "sampling" not in capabilities:
        raise RpcFault(MISSING_CAPABILITY, "Sampling is needed.", status=400, requiredCapabilities={"sampling": {}})
    if name == "test_error_handling":
        return {"content": [text("This tool intentionally returns an error for testing")], "isError": True}
    if name in ASKS:
        return ask(ASKS[name], params) or {"content": [text(f"state-ok {params.get('inputResponses')}")]}
    if name not in CONTENT:
        raise RpcFault(INVALID_PARAMS, "Unknown tool")
    return {"content": CONTENT[name]}


async def list_prompts(_: Message) -> Json:
    return {
        "prompts": [
            {
                "name": name,
                "description": name,
                "arguments": [{"name": argument, "description": argument, "required": True} for argument in arguments],
            }
            for name, arguments in PROMPTS.items()
        ],
        **CACHED,
    }


async def get_prompt(message: Message) -> Json:
    name, arguments = message.params["name"], message.params.get("arguments", {})
    if name not in PROMPTS:
        raise RpcFault(INVALID_PARAMS, "Unknown prompt")
    if name == "test_input_required_result_prompt":
        question = {"user_context": elicit("What context should the prompt use?", "context")}
        asked = ask([question], message.params)
        if asked is not None:
            return asked
    contents = {
        "test_simple_prompt": [text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            text(f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'")
        ],
        "test_prompt_with_embedded_resource": [
            embedded(str(arguments.get("resourceUri")), "text/plain", "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [IMAGE, text("Please analyze the image above.")],
        "test_input_required_result_prompt": [text("Use the context.")],
    }[name]
    return {"messages": [{"role": "user", "content": content} for content in contents]}


async def list_resources(_: Message) -> Json:
    return {
        "resources": [
            {"uri": uri, "name": uri, "description": uri, "mimeType": one["mimeType"]} for uri, one in RESOURCES.items()
        ],
        **CACHED,
    }


async def list_templates(_: Message) -> Json:
    template = {"uriTemplate": "test://template/{id}/data", "name": "template", "description": "By its id."}
    return {"resourceTemplates": [template], **CACHED}


async def read_resource(message: Message) -> Json:
    uri = message.params["uri"]
    begin, end = TEMPLATE
    if uri in RESOURCES:
        return {"contents": [{"uri": uri, **RESOURCES[uri]}], **CACHED}
    if uri.startswith(begin) and uri.endswith(end):
        key = uri[len(begin) : -len(end)]
        shown = msgspec.json.encode({"id": key, "templateTest": True, "data": f"Data for ID: {key}"}).decode()
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": shown}], **CACHED}
    raise RpcFault(INVALID_PARAMS, "Resource not found", uri=uri)


async def complete(_: Message) -> Json:
    return {"completion": {"values": [], "total": 0, "hasMore": False}}


FIXTURES = Declared(
    "fixtures",
    "1",
    "Fixtures of the conformance suite.",
    CAPABILITIES,
    {
        "tools/list": list_tools,
        "tools/call": call_tool,
        "prompts/list": list_prompts,
        "prompts/get": get_prompt,
        "resources/list": list_resources,
        "resources/templates/list": list_templates,
        "resources/read": read_resource,
        "completion/complete": complete,
    },
)


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    @property
    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Fixtures(_Quiet):
    """Our protocol layer with the fixtures of the suite."""

    def do_POST(self) -> None:
        body, headers = self.body, {name.lower(): value for name, value in self.headers.items()}
        try:
            check_origin(headers, "http://localhost")
        except Refusal:
            self.reply(403, b"", {})
            return
        said = asyncio.run(answer(body, headers, FIXTURES))
        written = b"" if said.message is None else msgspec.json.encode(said.message)
        self.reply(said.status, written, {"content-type": "application/json"} if written else {})

    def do_GET(self) -> None:
        self.reply(405, b"", {"allow": "POST"})


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve `/mcp` for a block; gives its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def fixtures() -> Iterator[str]:
    """Serve the fixtures for a block."""
    with serving(_Fixtures) as url:
        yield url


@contextmanager
def relay(base_url: str, secret: str) -> Iterator[str]:
    """Serve the service's own `/mcp` with a credential added, for a suite that can send none."""
    place = urlsplit(base_url)
    assert place.hostname is not None

    class Relay(_Quiet):
        def pass_on(self) -> None:
            connection = HTTPConnection(str(place.hostname), place.port, timeout=60)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            own = f"127.0.0.1:{self.server.server_address[1]}"  # type: ignore[index]  # of a TCP server
            # The suite speaks to this address, and the service to its own.
            told = {name: value.replace(own, place.netloc) for name, value in headers.items()}
            connection.request(self.command, "/mcp", self.body, {**told, "authorization": f"Bearer {secret}"})
            said = connection.getresponse()
            passed = {
                name: value
                for name, value in said.getheaders()
                if name.lower() not in {"content-length", "transfer-encoding", "connection"}
            }
            self.reply(said.status, said.read(), passed)
            connection.close()

        def do_POST(self) -> None:
            self.pass_on()

        def do_GET(self) -> None:
            self.pass_on()

    with serving(Relay) as url:
        yield url
