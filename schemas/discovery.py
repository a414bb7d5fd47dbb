"""Wire contracts of discovery: entry, manifest, guides, snippets, search, health."""

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from schemas.kernel import patterns

# Wire shapes of the entry point and of the schema document's filters (R-DISC-01 to R-DISC-05, R-DISC-14).

Flow = Literal["install", "onboarding", "automation", "provider"]
FLOWS: tuple[str, ...] = get_args(Flow)


class QuickStart(msgspec.Struct, frozen=True):
    """The first call for one situation."""

    when: str
    action: str
    urls: list[str]


class ProofContract(msgspec.Struct, frozen=True):
    """The proof required of an install and of an answer."""

    install: str
    answering: str


class Root(msgspec.Struct, frozen=True, omit_defaults=True):
    """The entry point. A pointer is absent while its target is not built. All others resolve."""

    name: str
    docs: str
    api_schema: str
    version: Literal[3]
    contract_version: Literal[3]
    deploy_sha: str
    next_action: str
    quick_start: list[QuickStart]
    mental_model: dict[str, str]
    proof_contract: ProofContract
    response_shapes: dict[str, str]
    console: str | msgspec.UnsetType = msgspec.UNSET
    documentation: str | msgspec.UnsetType = msgspec.UNSET
    mcp: str | msgspec.UnsetType = msgspec.UNSET
    install_docs: str | msgspec.UnsetType = msgspec.UNSET
    reference_docs: str | msgspec.UnsetType = msgspec.UNSET
    capabilities: str | msgspec.UnsetType = msgspec.UNSET
    setup_manifest: str | msgspec.UnsetType = msgspec.UNSET
    install_contract: str | msgspec.UnsetType = msgspec.UNSET
    install_plan: str | msgspec.UnsetType = msgspec.UNSET
    signal_map: str | msgspec.UnsetType = msgspec.UNSET
    implementation_report: str | msgspec.UnsetType = msgspec.UNSET
    verify_install: str | msgspec.UnsetType = msgspec.UNSET
    verify_report: str | msgspec.UnsetType = msgspec.UNSET
    skill: str | msgspec.UnsetType = msgspec.UNSET
    onboarding: str | msgspec.UnsetType = msgspec.UNSET
    onboarding_flow: str | msgspec.UnsetType = msgspec.UNSET
    provider_flow: str | msgspec.UnsetType = msgspec.UNSET
    automation_flow: str | msgspec.UnsetType = msgspec.UNSET
    source_snapshot_helper: str | msgspec.UnsetType = msgspec.UNSET
    automation_docs: str | msgspec.UnsetType = msgspec.UNSET
    automation_playbooks: str | msgspec.UnsetType = msgspec.UNSET


class SchemaQuery(msgspec.Struct, frozen=True):
    """Filters of the schema document. `path` and `method` belong together."""

    flow: Flow | None = None
    tag: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    include_components: bool = True
    path: Annotated[str, Meta(min_length=1, max_length=300)] | None = None
    method: Annotated[str, Meta(min_length=1, max_length=10)] | None = None
    index: bool = False


class SchemaDocument(msgspec.Struct, frozen=True):
    """The schema document, whole or filtered. The index has `flows` and `operations` in place of `paths`."""

    openapi: Literal["3.1.0"]
    info: dict[str, Any]
    servers: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    tags: list[Any] | msgspec.UnsetType = msgspec.UNSET
    paths: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    components: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    flows: list[str] | msgspec.UnsetType = msgspec.UNSET
    operations: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET


# Wire shapes of the setup manifest and of the capabilities (R-DISC-06 to R-DISC-08, G-166).

Place = Literal["server", "browser", "ci", "scheduler", "owner"]


class SetupVariable(msgspec.Struct, frozen=True, kw_only=True):
    """An environment variable, and the part that needs it."""

    name: str
    secret: bool
    required: bool
    where: Place
    purpose: str


class FrameworkVariables(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which the code of one language reads its variables."""

    language: str
    where: Place
    reads: str
    variables: list[str]
    snippet: str


class HostVariables(msgspec.Struct, frozen=True, kw_only=True):
    """The store of one kind of host."""

    host: str
    store: str
    variables: list[str]
    note: str


class PreflightCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A check before the first request."""

    check: str
    when_it_fails: str


class PreflightChecks(msgspec.Struct, frozen=True, kw_only=True):
    """The checks of each credential, of the tools and of the service."""

    api_key: PreflightCheck
    dsn: PreflightCheck
    ci_credential: PreflightCheck
    runner_credential: PreflightCheck
    tools: PreflightCheck
    service: PreflightCheck


class LocalState(msgspec.Struct, frozen=True, kw_only=True):
    """The files of an agent: those to keep, and those to delete."""

    keep: list[str]
    delete: list[str]
    never_commit: list[str]
    resume_from: str


class PublicQueries(msgspec.Struct, frozen=True, kw_only=True):
    """The operations for publishing numbers."""

    publish: str
    read: str
    key_parameter: str
    note: str


class SetupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The variables, checks and files of a setup."""

    schema_version: int
    principle: str
    project_setup_endpoint: str
    runtime_env: list[SetupVariable]
    owner_env: list[SetupVariable]
    framework_env_matrix: list[FrameworkVariables]
    host_env_matrix: list[HostVariables]
    env_preflight_checks: PreflightChecks
    local_state: LocalState
    public_queries: PublicQueries
    next_action: str


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """A capability with its operations. `reason` is null while it is available here."""

    id: str
    title: str
    available: bool
    reason: str | None
    operations: list[str]
    docs: str


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """One way in or out of the service."""

    available: bool
    url: str
    description: str


class Surfaces(msgspec.Struct, frozen=True, kw_only=True):
    """The ways in and out."""

    api: Surface
    guides: Surface
    mcp: Surface
    ingest: Surface
    webhooks: Surface
    public_queries: Surface


class AuthType(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of credential."""

    kind: str
    env_var: str
    reaches: str


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of this installation. Only `generated_at` may differ between two reads."""

    schema_version: int
    generated_at: int
    principle: str
    discovery: dict[str, str]
    auth_types: list[AuthType]
    surfaces: Surfaces
    capabilities: list[Capability]
    next_action: str


# Wire shapes of the adapters and of the privacy disclosure (R-DISC-10, R-DISC-12, G-014).

Variant = Literal["client", "server"]


class AdapterItem(msgspec.Struct, frozen=True, kw_only=True):
    """A document for one kind of tool."""

    file: str
    title: str
    content_type: str
    url: str


class AdapterList(msgspec.Struct, frozen=True, kw_only=True):
    """The documents for tools."""

    adapters: list[AdapterItem]
    count: int
    next_action: str


class DisclosureQuery(msgspec.Struct, frozen=True):
    """The kind of product, and the telemetry it sends."""

    variant: Variant = "client"
    errors: bool = True
    analytics: bool = True


class DataResidency(msgspec.Struct, frozen=True, kw_only=True):
    """The place of the data. `stated` is false while the operator says nothing."""

    location: str
    stated: bool


class Included(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the disclosure."""

    errors: bool
    analytics: bool


class PrivacyDisclosure(msgspec.Struct, frozen=True, kw_only=True):
    """A text for the privacy page of a product, with its facts."""

    canonical_url: str
    variant: Variant
    last_updated: Annotated[str, Meta(pattern=patterns.CALENDAR_DAY)]
    data_residency: DataResidency
    includes: Included
    paste_ready_markdown: str
    learn_more: str


# Wire shapes of the snippets that report errors and events from a product (R-DISC-11, G-015).

Language = Literal["node", "browser", "python", "ruby", "go", "php", "java", "dotnet", "rust", "elixir", "curl"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

SnippetPlace = Literal["server", "browser", "ci"]
"""The environment that a variable is set in, or that a file belongs to."""


class SdkPackage(msgspec.Struct, frozen=True):
    """The package that the snippet needs beside the standard library."""

    manager: str
    name: str


class SdkFile(msgspec.Struct, frozen=True):
    """A further file for the product's repository. `where` is the environment that runs it."""

    path: str
    contents: str
    where: SnippetPlace


class SdkVariable(msgspec.Struct, frozen=True):
    """An environment variable. `secret` tells whether its value must stay hidden."""

    name: str
    secret: bool
    where: SnippetPlace


class SdkSnippet(msgspec.Struct, frozen=True):
    """A program for one language. It reports one error and one event, and retries a 429 within bounds.

    `package` and `install_command` are null where the standard library is enough.
    """

    language: Language
    title: str
    package: SdkPackage | None
    install_command: str | None
    snippet: str
    files: list[SdkFile]
    env_vars: list[SdkVariable]
    docs_url: str
    notes: list[str]
    next_action: str


# Wire shape of the search over the documentation (G-166).

MAX_ASKED = 100


class PagesQuery(msgspec.Struct, frozen=True):
    """What is looked for."""

    q: Annotated[str, Meta(max_length=MAX_ASKED)] = ""


# Wire shapes of the health checks and of the test clock (G-120).


class Live(msgspec.Struct, frozen=True):
    """The process answers."""

    status: Literal["live"]


class Check(msgspec.Struct, frozen=True):
    """One check and its result."""

    name: str
    ok: bool
    detail: str


class Ready(msgspec.Struct, frozen=True):
    """The process can serve. It is degraded when the sequencer, a reader of the log or the sweep lags behind."""

    status: Literal["ready", "degraded"]
    checks: list[Check]


class AdvanceClock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By how much to move the clock: at most a leap year at once."""

    seconds: Annotated[int, Meta(ge=1, le=31_622_400)]


class ClockAdvanced(msgspec.Struct, frozen=True):
    """The service's time in epoch seconds, and its offset from the wall clock."""

    server_time: int
    offset_seconds: int
