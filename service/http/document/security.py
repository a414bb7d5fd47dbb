"""Who may call an operation: its security schemes in the schema document, and the same in words (G-025, G-027)."""

from collections.abc import Mapping
from typing import Any

from schemas.kernel.published import documented_operations
from service.auth.authority import PrincipalKind, permits
from service.http.declare.endpoint import Operation
from statemachines.accounts.membership import Role

Json = dict[str, Any]

SECURITY_SCHEMES: Mapping[str, Json] = {
    "ApiKeyAuth": {
        "type": "http",
        "scheme": "bearer",
        "description": "API key of an owner, member or auditor, prefix service_sk_, usually kept in SERVICE_API_KEY.",
    },
    "SessionCookieAuth": {
        "type": "apiKey",
        "in": "cookie",
        "name": "service_session",
        "description": "Session of a person in the console. Over https its name is __Host-service_session.",
    },
    "DsnAuth": {
        "type": "http",
        "scheme": "bearer",
        "description": "A DSN of the project (SERVICE_DSN). The header x-service-dsn accepts only a DSN.",
    },
    "CiCredentialAuth": {
        "type": "http",
        "scheme": "bearer",
        "description": "CI credential of one project, prefix service_ci_, kept in SERVICE_CI_API_KEY.",
    },
    "RunnerCredentialAuth": {
        "type": "http",
        "scheme": "bearer",
        "description": "Runner credential of one automation, prefix service_runner_, kept in SERVICE_RUNNER_API_KEY.",
    },
    "InternalTokenAuth": {
        "type": "http",
        "scheme": "bearer",
        "description": "Token of the hosted web application.",
    },
    "TestTokenAuth": {"type": "http", "scheme": "bearer", "description": "Token of the test operator."},
    "PaymentSignatureAuth": {
        "type": "apiKey",
        "in": "header",
        "name": "provider-signature",
        "description": "Signature of the payment provider over the body.",
    },
}
_SCHEME_OF_KIND: Mapping[PrincipalKind, str] = {
    PrincipalKind.KEY: "ApiKeyAuth",
    PrincipalKind.SESSION: "SessionCookieAuth",
    PrincipalKind.DSN: "DsnAuth",
    PrincipalKind.PUBLIC_DSN: "DsnAuth",
    PrincipalKind.CI: "CiCredentialAuth",
    PrincipalKind.RUNNER: "RunnerCredentialAuth",
    PrincipalKind.INTERNAL: "InternalTokenAuth",
    PrincipalKind.TEST: "TestTokenAuth",
}
_SIGNED = frozenset((row.method, row.path) for row in documented_operations() if row.auth == "signature")
_CALLER: Mapping[PrincipalKind, str] = {
    PrincipalKind.ANONYMOUS: "anybody, without a credential",
    PrincipalKind.KEY: "an API key",
    PrincipalKind.SESSION: "a person signed in to the console",
    PrincipalKind.CI: "a CI credential",
    PrincipalKind.RUNNER: "a runner credential",
    PrincipalKind.DSN: "the project's DSN",
    PrincipalKind.PUBLIC_DSN: "its public DSN",
    PrincipalKind.INTERNAL: "the hosted web application",
    PrincipalKind.TEST: "the test operator",
}


def security(operation: Operation) -> list[dict[str, list[str]]]:
    """One alternative for each kind of principal; none for public routes, the empty one where both are welcome."""
    if (operation.method, operation.path) in _SIGNED:
        return [{"PaymentSignatureAuth": []}]
    names = sorted({_SCHEME_OF_KIND[kind] for kind in operation.who.principals & _SCHEME_OF_KIND.keys()})
    alternatives: list[dict[str, list[str]]] = [{name: []} for name in names]
    if PrincipalKind.ANONYMOUS in operation.who.principals and alternatives:
        alternatives.append({})
    return alternatives


def callers(operation: Operation) -> str:
    """The same as a sentence, with the role that people need and the scope that credentials need."""
    if (operation.method, operation.path) in _SIGNED:
        return "For the payment provider, which signs the body."
    kinds = [kind for kind in _CALLER if kind in operation.who.principals]
    return f"For {' or '.join(_caller(operation, kind) for kind in kinds)}."


def _caller(operation: Operation, kind: PrincipalKind) -> str:
    if kind is PrincipalKind.KEY:
        role = "an owner" if operation.who.owner else "a member"
        role = f"{role} or an auditor" if permits(operation, Role.AUDITOR) else role
        in_project = "{project_id}" in operation.path or operation.who.subject is not None or operation.who.owner
        return f"{_CALLER[kind]} of {role}" if in_project else _CALLER[kind]
    scoped = operation.who.scope is not None and kind in {PrincipalKind.CI, PrincipalKind.RUNNER}
    return f"{_CALLER[kind]} with the scope {operation.who.scope}" if scoped else _CALLER[kind]
