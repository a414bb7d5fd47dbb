"""A driver for a running service: a new owner with a new project, over HTTP alone."""

import secrets
from typing import Any

import httpx2
import msgspec

from schemas.onboarding import OnboardingState
from service.testing import onboarding_model
from service.testing.shop import ENVIRONMENT, EVENT, FAILURE, plan, snapshot
from service.testing.walks import Shown

SESSION_SECONDS = 7200
_CREATED, _REFUSED = 201, 400


class HttpDriver:
    """One onboarding of one new project. `client` has the address of the service as its base.

    The tokens are those of the installation: `SERVICE_INTERNAL_TOKEN` signs the owner in, `SERVICE_TEST_TOKEN` moves
    the clock. Never walk through an installation with real projects: its clock leaps two hours at a time.
    """

    def __init__(self, client: httpx2.Client, internal_token: str, test_token: str) -> None:
        self._client = client
        self._test_token = test_token
        self.owner = self._sign_in(internal_token)
        made = self._sent("POST", "/v1/projects", self.owner, {"name": "Property tests"})
        self.project_id: str = made["id"]
        self.dsn: str = made["dsn"]
        self.path = f"/v1/projects/{self.project_id}/onboarding"
        self.state: dict[str, Any] | None = None
        self._ci = ""
        self._markers: dict[str, Any] = {}

    def _sign_in(self, internal_token: str) -> str:
        begun = self._sent("POST", "/v1/auth/device", None, {"client_name": "testing"})
        subject = f"testing-{secrets.token_hex(8)}"
        identity = {"provider": "testing", "subject": subject, "email": f"{subject}@example.invalid"}
        wish = {"user_code": begun["user_code"], "identity": identity}
        self._sent("POST", "/v1/auth/device/authorize", internal_token, wish)
        minted = self._sent("POST", "/v1/auth/device/poll", None, {"device_code": begun["device_code"]})
        return str(minted["api_key"])

    def send(self, method: str, path: str, secret: str | None, body: Any = None, **headers: str) -> httpx2.Response:
        """Send a request as the holder of a secret. Names of headers have _ for -."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if secret:
            sent["authorization"] = f"Bearer {secret}"
        return self._client.request(method, path, json=body, headers=sent)

    def _sent(self, method: str, path: str, secret: str | None, body: Any = None, **headers: str) -> Any:
        answer = self.send(method, path, secret, body, **headers)
        assert answer.is_success, f"{method} {path} answered {answer.status_code}: {answer.text[:500]}"
        return answer.json()

    def report(self, body: dict[str, Any], key: str) -> dict[str, Any]:
        """Send an error or log of the product, with an Idempotency-Key."""
        told: dict[str, Any] = self._sent("POST", "/v1/logs/", self.dsn, body, idempotency_key=key)
        return told

    def capture(self, body: dict[str, Any], key: str) -> dict[str, Any]:
        """Send an event of the product, with an Idempotency-Key."""
        told: dict[str, Any] = self._sent("POST", "/v1/analytics/", self.dsn, body, idempotency_key=key)
        return told

    # ---- the driver

    def show(self) -> Shown:
        """Read the onboarding, checked against its contract."""
        answer = self.send("GET", self.path, self.owner)
        self.state = answer.json() if answer.is_success else None
        if self.state is None:
            return Shown()
        msgspec.convert(self.state, OnboardingState)
        assert answer.headers["etag"] == self.state["etag"]
        return Shown(self.state["status"], self.state["revision"], self.state["plan"]["business_question"])

    def _tag(self, tag: onboarding_model.SentTag) -> dict[str, str]:
        if tag is onboarding_model.SentTag.NONE:
            return {}
        id_ = self.state["onboarding_id"] if self.state else "onb_0000"
        revision = self.state["revision"] if self.state else 0
        back = {
            onboarding_model.SentTag.CURRENT: 0,
            onboarding_model.SentTag.PREVIOUS: 1,
            onboarding_model.SentTag.OLDER: 2,
            onboarding_model.SentTag.FUTURE: -1,
        }
        return {"if_match": f'"onb:{id_}:{revision - back[tag]}"' if tag in back else f'"onb:onb_other:{revision}"'}

    def perform(self, step: onboarding_model.Step) -> onboarding_model.StepAnswer:
        """Send the request of a step, and read the new state."""
        body, where = self._request(step)
        answer = self.send("POST", self.path + where, self.owner, body, **self._tag(step.tag))
        told = answer.json()
        if isinstance(step, onboarding_model.Proof) and answer.status_code == _CREATED:
            self._markers = told["one_time_markers"]
        if answer.status_code >= _REFUSED:
            return onboarding_model.StepAnswer(answer.status_code, told["error"]["code"])
        self.show()
        return onboarding_model.StepAnswer(answer.status_code, ok=told.get("ok"))

    def _request(self, step: onboarding_model.Step) -> tuple[Any, str]:
        match step:
            case onboarding_model.Start(question, _):
                return {"intent": "start", "plan": _plan(question)}, ""
            case onboarding_model.Approve(hash_, _):
                return {"decision": "approve", "plan_sha256": self._sha(hash_)}, "/review"
            case onboarding_model.Replace(hash_, question, _):
                wish = {"decision": "replace", "plan_sha256": self._sha(hash_), "replacement_plan": _plan(question)}
                return wish, "/review"
            case onboarding_model.Proof(commit, _):
                return {"implementation_source_snapshot": snapshot() | {"git_head_sha": commit}}, "/proof"
            case onboarding_model.Verify():
                return None, "/verify"

    def _sha(self, hash_: onboarding_model.SentHash) -> str:
        current = self.state["plan_sha256"] if self.state else "1" * 64
        return current if hash_ is onboarding_model.SentHash.CURRENT else "0" * 64

    def exercise(self) -> None:
        """Be the product and its CI: an event, the safe error and a deploy, under the markers."""
        assert self.state is not None, "a session has begun"
        runtime, ci = self._markers["runtime"], self._markers["ci"]
        marker = {runtime["property_name"]: runtime["value"]}
        self.capture({"event": EVENT, "distinct_id": "u1", "properties": marker}, secrets.token_hex(8))
        failed = {"level": "error", "message": "The bank said no.", "tags": {**marker, "failure_marker": FAILURE}}
        self.report(failed, secrets.token_hex(8))
        deploy = {
            "version": "1.0.0",
            "environment": ENVIRONMENT,
            "sha": self.state["implementation_source_snapshot"]["git_head_sha"],
        }
        self._sent("POST", "/v1/deploys/", self._ci_secret(), deploy, **{ci["header_name"]: ci["value"]})

    def _ci_secret(self) -> str:
        if not self._ci:
            wish = {"kind": "ci_deploy", "name": "Property tests"}
            path, key = f"/v1/projects/{self.project_id}/credentials", secrets.token_hex(8)
            self._ci = self._sent("POST", path, self.owner, wish, idempotency_key=key)["credential"]
        return self._ci

    def expire(self) -> None:
        """Move the clock of the service past the end of the session."""
        self._sent("POST", "/v1/test-clock/advance", self._test_token, {"seconds": SESSION_SECONDS})


def _plan(question: str) -> dict[str, Any]:
    return plan() | {"business_question": question}
