"""Wire shapes of the entry point and of the schema document's filters (R-DISC-01 to R-DISC-05, R-DISC-14)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

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
