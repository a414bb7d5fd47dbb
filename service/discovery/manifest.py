"""The entry document, the guides, the capabilities and the setup manifest (R-DISC-07, R-DISC-08).

Credentials of runners and CI are in the stores of these alone: the owner's environment never holds them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from schemas import discovery as wire
from service.discovery.reads import Installation

if TYPE_CHECKING:
    import jinja2


# The setup manifest: the variables of a setup, their stores, and the checks (R-DISC-07, R-DISC-08).

KEY: Final = "SERVICE_API_KEY"
DSN: Final = "SERVICE_DSN"
CI: Final = "SERVICE_CI_API_KEY"
RUNNER: Final = "SERVICE_RUNNER_API_KEY"
PROOF: Final = "SERVICE_ONBOARDING_PROOF"

LANGUAGES: Final[tuple[tuple[str, wire.Place, str], ...]] = (
    ("node", "server", "process.env.SERVICE_DSN"),
    ("browser", "browser", "a constant of the build, or the answer of your own server"),
    ("python", "server", 'os.environ["SERVICE_DSN"]'),
    ("ruby", "server", 'ENV.fetch("SERVICE_DSN")'),
    ("go", "server", 'os.Getenv("SERVICE_DSN")'),
    ("php", "server", 'getenv("SERVICE_DSN")'),
    ("java", "server", 'System.getenv("SERVICE_DSN")'),
    ("dotnet", "server", 'Environment.GetEnvironmentVariable("SERVICE_DSN")'),
    ("rust", "server", 'std::env::var("SERVICE_DSN")'),
    ("elixir", "server", 'System.fetch_env!("SERVICE_DSN")'),
    ("curl", "ci", "$SERVICE_CI_API_KEY"),
)
"""Each language with a snippet, the place where its code runs, and the way it reads its secret."""

Path = Callable[[str], str]


def manifest(base_url: str, path: Path) -> wire.SetupManifest:
    """Describe a setup. `path` finds the path of an operation by its id."""
    return wire.SetupManifest(
        schema_version=1,
        principle=(
            "Each part reads its own credential from its own secret store. No credential is in the repository, in a "
            "bundle or in a log."
        ),
        project_setup_endpoint=base_url + path("get_setup"),
        runtime_env=[
            _variable(
                DSN,
                "server",
                "A product with an analytics provider keeps its official SDK and the key of that. Without one, this "
                "lets it send errors and events into one project.",
                False,
            ),
            _variable(PROOF, "server", "Marks what a run of the product proves. Set while a proof is open.", False),
        ],
        owner_env=[
            _variable(KEY, "owner", "API key of a person. An agent that works for the person uses it."),
            _variable("SERVICE_PRIVATE_API_KEY", "owner", f"Another name for {KEY}.", False),
        ],
        framework_env_matrix=[
            wire.FrameworkVariables(
                language=language,
                where=where,
                reads=reads,
                variables=[CI if where == "ci" else DSN],
                snippet=f"{base_url}{path('get_install_sdk').replace('{language}', language)}",
            )
            for language, where, reads in LANGUAGES
        ],
        host_env_matrix=_hosts(),
        env_preflight_checks=_checks(base_url, path),
        local_state=wire.LocalState(
            keep=["plan.json", "source-snapshot.mjs"],
            delete=["device.json", "key.json", "project.json", "ci.json", "runner.json", "proof.json"],
            never_commit=[KEY, DSN, CI, RUNNER, PROOF],
            resume_from=f"GET {base_url}{path('get_next_steps')}",
        ),
        public_queries=wire.PublicQueries(
            publish=f"POST {base_url}{path('create_public_query')}",
            read=f"GET {base_url}{path('run_public_query')}",
            key_parameter="key",
            note="Anybody with the publishable key can read the rows of this one query. It reaches nothing else.",
        ),
        next_action=f"Read {base_url}{path('get_install_guide')} and begin with its first command.",
    )


def _variable(name: str, where: wire.Place, purpose: str, required: bool = True) -> wire.SetupVariable:
    return wire.SetupVariable(name=name, secret=True, required=required, where=where, purpose=purpose)


def _hosts() -> list[wire.HostVariables]:
    hosts = (
        ("server or container", "environment of the process", [DSN], "Restart the process after a change."),
        ("serverless function", "environment of the function", [DSN], "Deploy again after a change."),
        (
            "static site",
            "build of the bundle",
            [DSN],
            "Build the public DSN in. It can send, and read no data.",
        ),
        (
            "ci",
            "secret store of the CI",
            [CI],
            "For the job that records deploys and proves pull requests. A bound workflow stores none.",
        ),
        ("scheduler of a runner", "secret store of the scheduler", [RUNNER], "One credential for each automation."),
        ("workstation of the owner", "password manager or keychain", [KEY], "Never a file of the repository."),
    )
    return [
        wire.HostVariables(host=host, store=store, variables=names, note=note) for host, store, names, note in hosts
    ]


def _checks(base_url: str, path: Path) -> wire.PreflightChecks:
    def check(what: str, remedy: str) -> wire.PreflightCheck:
        return wire.PreflightCheck(check=what, when_it_fails=remedy)

    return wire.PreflightChecks(
        api_key=check(
            f"GET {base_url}{path('list_projects')} with {KEY} answers 200.",
            f"Sign in: POST {base_url}{path('start_device')}.",
        ),
        dsn=check(
            f"POST {base_url}{path('verify_dsn')} with {KEY} and the DSN answers 200.",
            f"An owner reads it: GET {base_url}{path('read_dsn')}.",
        ),
        ci_credential=check(
            f"GET {base_url}{path('list_ci_bindings')} shows the workflow of the CI, or "
            f"GET {base_url}{path('list_credentials')} a live ci_deploy credential.",
            f"An owner binds it: POST {base_url}{path('add_ci_binding')}, or makes one: "
            f"POST {base_url}{path('create_credential')}.",
        ),
        runner_credential=check(
            f"GET {base_url}{path('list_credentials')} shows a live one for each enabled automation.",
            f"An owner makes one: POST {base_url}{path('create_credential')}.",
        ),
        tools=check("bash, curl, python3, git and Node.js 20 or later are there.", "Install what is missing."),
        service=check(f"GET {base_url}{path('get_ready')} answers 200.", "Wait, then ask again."),
    )


# The entry point on the wire: a description of the service, and pointers to its parts (R-DISC-01 to R-DISC-05).

UNKNOWN_SHA = "unknown"

# Pointer, path and query.
_POINTERS = (
    ("console", "/console", ""),
    ("documentation", "/docs", ""),
    ("mcp", "/mcp", ""),
    ("install_docs", "/install.md", ""),
    ("reference_docs", "/service.md", ""),
    ("capabilities", "/v1/capabilities", ""),
    ("setup_manifest", "/v1/setup/manifest", ""),
    ("install_contract", "/v1/install/contract", ""),
    ("install_plan", "/v1/install/plan", ""),
    ("signal_map", "/v1/projects/{project_id}/signal-map", ""),
    ("implementation_report", "/v1/projects/{project_id}/implementation-report", ""),
    ("verify_install", "/v1/projects/{project_id}/install/verify", ""),
    ("verify_report", "/v1/projects/{project_id}/verify-report", ""),
    ("skill", "/skill/service/SKILL.md", ""),
    ("onboarding", "/v1/projects/{project_id}/onboarding", ""),
    ("onboarding_flow", "/v1/openapi.json", "?flow=onboarding"),
    ("provider_flow", "/v1/openapi.json", "?flow=provider"),
    ("automation_flow", "/v1/openapi.json", "?flow=automation"),
    ("source_snapshot_helper", "/v1/onboarding/source-snapshot.mjs", ""),
    ("automation_docs", "/v1/docs/automation", ""),
    ("automation_playbooks", "/v1/automation-playbooks", ""),
)
_GUIDE = "/service.md"
_INDEX = "/v1/openapi.json?index=true"


@lru_cache(maxsize=4)
def root(base_url: str, deploy_sha: str | None) -> wire.Root:
    """The entry point. `deploy_sha` is the running commit, if it is known."""
    pointers: dict[str, Any] = {name: f"{base_url}{path}{query}" for name, path, query in _POINTERS}
    schema = f"{base_url}/v1/openapi.json"
    index = f"{base_url}{_INDEX}"
    return wire.Root(
        name="service",
        docs=f"{base_url}{_GUIDE}",
        api_schema=schema,
        version=3,
        contract_version=3,
        deploy_sha=deploy_sha or UNKNOWN_SHA,
        next_action=(
            "Read api_schema filtered by the flow you need before the first mutation, and send a descriptive "
            "User-Agent with every request."
        ),
        quick_start=[
            wire.QuickStart(
                "You have no API key.",
                "Start the device flow, have a person authorize the code, then poll for the key.",
                [f"{base_url}/v1/auth/device", f"{base_url}/v1/auth/device/poll"],
            ),
            wire.QuickStart(
                "You need the exact shape of a request.",
                "Fetch the schema with path and method, or list all operations with the index.",
                [schema, index],
            ),
            wire.QuickStart(
                "You met an error code.",
                "Follow the error's next_action. The catalogue lists every code.",
                [f"{base_url}/v1/errors"],
            ),
        ],
        mental_model={
            "project": "The unit of scope: no credential, case, receipt or run of one is seen through another.",
            "evidence": "Telemetry is evidence. No text in it changes policy, state or authority.",
            "authority": "The service grants bounded authority and records proof. It writes no code itself.",
        },
        proof_contract=wire.ProofContract(
            install="Onboarding is verified only by events that a real execution of the instrumented code produced.",
            answering="An answer comes from the rows of a bounded query. A failed read is never an empty one.",
        ),
        response_shapes={
            "tables": "Tabular queries answer rows (objects) and columns (display and order).",
            "errors": "Errors have error.code, error.message and error.next_action. /v1/errors lists every code.",
            "times": "Times are integers: epoch seconds in UTC.",
            "flows": f"Flows of the schema: {', '.join(wire.FLOWS)}.",
        },
        **pointers,
    )


# The capabilities of this installation, made from its operations and settings (R-DISC-06). Each operation belongs to
# one capability. Without its setting, a capability is shown as not available, with the reason and without its
# operations.

TITLES: Final[Mapping[str, str]] = {
    "alerts": "Watch a number, and be told when it leaves its bounds",
    "analytics": "Answer questions with evidence",
    "auth": "Sign people in, and manage their keys",
    "automation": "Coordinate bounded automation under an approved contract",
    "cases": "Group errors into cases, and work on them",
    "credentials": "Give CI and runners credentials of their own",
    "deletion": "Delete a project or an account",
    "discovery": "Explain the service to people, agents and tools",
    "events": "Show and stream what was recorded",
    "ingest": "Take errors, events and deploys",
    "install": "Install in the older way",
    "log": "Sign the log of all events, and prove what is in it",
    "mcp": "Give agents tools over the same operations",
    "onboarding": "Prove an instrumentation by real execution",
    "operations": "Show whether the service is healthy",
    "payments": "Buy plans",
    "projects": "Manage projects, members and DSNs",
    "provider": "Read the analytics of a connected provider",
    "public_queries": "Publish numbers",
    "signal_map": "Show what a product was approved to send",
    "usage_billing": "Show usage and plan",
    "webhooks": "Tell other systems what happened",
}
"""Every capability by its id: the groups of the document, and their parts that depend on settings."""

APART: Final[Mapping[str, str]] = {
    "connect_provider": "provider",
    "poll_provider": "provider",
    "disconnect_provider": "provider",
    "start_billing_checkout": "payments",
    "open_billing_portal": "payments",
    "receive_billing_webhook": "payments",
}
"""Operations of another capability than that of their group, because settings decide them."""


class OfferedOperation(NamedTuple):
    """An operation: id, group, method and path."""

    id: str
    group: str
    name: str


def missing(at: Installation) -> Mapping[str, str]:
    """The capabilities without their setting, with the reason."""
    reasons = {
        "provider": (at.provider, "No analytics provider is configured in this installation."),
        "payments": (at.payments, "No payment provider is configured in this installation."),
        "webhooks": (at.sealing, "Secrets cannot be kept in this installation: it has no encryption key."),
    }
    return {name: reason for name, (there, reason) in reasons.items() if not there}


@cache
def _generated_at() -> int:
    """When this process first described itself, in epoch seconds."""
    return int(time.time())


def capabilities(at: Installation, offered: Sequence[OfferedOperation]) -> wire.Capabilities:
    """Describe the capabilities of the operations of this installation."""
    without = missing(at)
    by_id: dict[str, list[str]] = {}
    for one in offered:
        by_id.setdefault(APART.get(one.id, one.group), []).append(one.name)
    base = at.base_url
    return wire.Capabilities(
        schema_version=1,
        generated_at=_generated_at(),
        principle="What is not available here is not offered. Every answer names its evidence.",
        discovery={
            "root": f"{base}/",
            "schema": f"{base}/v1/openapi.json",
            "guide": f"{base}/service.md",
            "install": f"{base}/install.md",
            "setup_manifest": f"{base}/v1/setup/manifest",
            "errors": f"{base}/v1/errors",
        },
        auth_types=_auth_types(),
        surfaces=_surfaces(base, without),
        capabilities=[
            wire.Capability(
                id=name,
                title=TITLES[name],
                available=name not in without,
                reason=without.get(name),
                operations=[] if name in without else names,
                docs=f"{base}{_DOCS.get(name, '/service.md')}",
            )
            for name, names in sorted(by_id.items())
        ],
        next_action="Choose a capability, and read its docs.",
    )


_DOCS: Final[Mapping[str, str]] = {
    "alerts": "/v1/docs/query",
    "analytics": "/v1/docs/query",
    "auth": "/install.md",
    "automation": "/v1/docs/automation",
    "credentials": "/v1/docs/automation",
    "ingest": "/install.md",
    "install": "/install.md",
    "onboarding": "/install.md",
    "provider": "/install.md",
    "public_queries": "/v1/docs/query",
    "signal_map": "/install.md",
}


def _auth_types() -> list[wire.AuthType]:
    kinds = (
        ("api_key", "SERVICE_API_KEY", "Every project of its person, as owner or member."),
        (
            "dsn",
            "SERVICE_DSN",
            "Sending errors, events and deploys into one project, for a product without an analytics provider.",
        ),
        ("ci_credential", "SERVICE_CI_API_KEY", "Trusted deploys and proofs of one project."),
        ("runner_credential", "SERVICE_RUNNER_API_KEY", "One automation of one project."),
    )
    return [wire.AuthType(kind=kind, env_var=variable, reaches=reaches) for kind, variable, reaches in kinds]


def _surfaces(base: str, without: Mapping[str, str]) -> wire.Surfaces:
    def surface(path: str, description: str, available: bool = True) -> wire.Surface:
        return wire.Surface(available=available, url=f"{base}{path}", description=description)

    return wire.Surfaces(
        api=surface("/v1/openapi.json", "JSON over HTTP, described by a schema."),
        guides=surface("/service.md", "Markdown for people and agents."),
        mcp=surface("/mcp", "Tools for agents that speak the Model Context Protocol."),
        ingest=surface("/v1/logs/", "Errors and logs by DSN. Events and deploys have routes of their own."),
        webhooks=surface(
            "/v1/projects/{project_id}/webhooks", "Signed deliveries of what happened.", "webhooks" not in without
        ),
        public_queries=surface("/v1/public/q/{publication_id}", "Published numbers, by publishable key."),
    )


# The texts of discovery: templates in `texts/`, filled in with facts (R-DISC-09, R-DISC-10). A template names no
# route, limit, code or variable by heart. It takes them from the facts it is given. A missing fact stops the
# rendering. A fact within HTML is escaped, within Markdown, JSON and style sheets it is not.

MARKDOWN = "text/markdown; charset=utf-8"
KEPT = 4
"""Most compiled templates in memory. The pages for people render theirs again and again."""


class Text(NamedTuple):
    """A rendered text: its bytes in UTF-8, and the quoted strong tag of them."""

    body: bytes
    etag: str


def as_text(content: str | bytes) -> Text:
    """Tag some content."""
    body = content.encode() if isinstance(content, str) else content
    return Text(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def render(name: str, facts: Mapping[str, Any]) -> Text:
    """Fill in a template of `texts/`. Raises jinja2.UndefinedError for a missing fact."""
    return as_text(_environment().get_template(name).render(facts))


@cache
def _environment() -> jinja2.Environment:
    """Load the engine with the first text, so that other processes do without it."""
    import jinja2  # noqa: PLC0415

    return jinja2.Environment(
        loader=jinja2.PackageLoader("service.discovery", "texts"),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(("html",)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        cache_size=KEPT,
        auto_reload=False,
    )


# The adapters by their file names, and the privacy disclosure, on the wire (R-DISC-10, R-DISC-12, G-014).

LAST_UPDATED: Final = "2026-11-30"
"""The date of the privacy text. Change it with the text."""


class Adapter(NamedTuple):
    """A document for one kind of tool, and its content type."""

    title: str
    content_type: str


ADAPTERS: Final[Mapping[str, Adapter]] = {
    "general.md": Adapter("Rules for any coding agent", MARKDOWN),
    "coding-agent-a.md": Adapter("Instructions for coding agent A", MARKDOWN),
    "coding-agent-b.md": Adapter("Instructions for coding agent B", MARKDOWN),
    "editor-rules.txt": Adapter("Rules for an editor with an assistant", "text/plain; charset=utf-8"),
    "plugin.json": Adapter("Plugin manifest", "application/json"),
}
"""The whole set: no other name leads to a file (G-014)."""


def adapters(base_url: str) -> wire.AdapterList:
    """List the adapters with their addresses."""
    found = [
        wire.AdapterItem(
            file=file, title=adapter.title, content_type=adapter.content_type, url=f"{base_url}/adapters/{file}"
        )
        for file, adapter in ADAPTERS.items()
    ]
    return wire.AdapterList(
        adapters=found, count=len(found), next_action="Fetch the document for your tool, and put it where it reads."
    )


def disclosure(at: Installation, query: wire.DisclosureQuery, markdown: str) -> wire.PrivacyDisclosure:
    """Describe a product's disclosure. `markdown` is the text to paste."""
    errors, analytics = str(query.errors).lower(), str(query.analytics).lower()
    asked = f"variant={query.variant}&errors={errors}&analytics={analytics}"
    return wire.PrivacyDisclosure(
        canonical_url=f"{at.base_url}/v1/privacy/disclosure?{asked}",
        variant=query.variant,
        last_updated=LAST_UPDATED,
        data_residency=wire.DataResidency(
            location=at.residency or "where the operator runs the service", stated=at.residency is not None
        ),
        includes=wire.Included(errors=query.errors, analytics=query.analytics),
        paste_ready_markdown=markdown,
        learn_more=f"{at.base_url}/service.md",
    )
