"""The service for a runner. Each write has its fence, and a key for its retries. Each answer is held to its form."""

from collections.abc import Iterator
from urllib.parse import quote, urlsplit

from service.runner.answers import ID, Json, Malformed, check_claim, check_policy, check_receipt, check_run
from service.runner.web import PATIENCE, Client, JsonAnswer, retry_after

WAIT_SECONDS = 60
MAX_PAGES = 50
CONFLICT, PRECONDITION_FAILED = 409, 412


class ServiceRefused(Exception):
    """A request was refused for good. `allowed_next` names the remaining operations."""

    def __init__(self, answer: JsonAnswer) -> None:
        error = answer.body.get("error") if isinstance(answer.body, dict) else None
        error = error if isinstance(error, dict) else {}
        self.status = answer.status
        self.code = str(error.get("code", f"http_{answer.status}"))
        details = error.get("details")
        self.details: Json = details if isinstance(details, dict) else {}
        left = self.details.get("allowed_next")
        self.allowed_next = [str(one.get("operation_id")) for one in left or () if isinstance(one, dict)]
        said = f"{self.code}: {error.get('message', '')} {error.get('next_action', '')}".strip()
        super().__init__(
            f"{said} Allowed next: {', '.join(self.allowed_next) or 'nothing'}." if left is not None else said
        )

    @property
    def outdated(self) -> bool:
        """Whether the state is another one than the request supposed."""
        return self.status in (CONFLICT, PRECONDITION_FAILED)


def _in_progress(answer: JsonAnswer) -> bool:
    return answer.status == CONFLICT and ServiceRefused(answer).code == "idempotency_in_progress"


class Service:
    """The operations of the loop."""

    def __init__(self, base_url: str, credential: str, project_id: str, *, patience: float = PATIENCE) -> None:
        self._client = Client(base_url, {"authorization": f"Bearer {credential}"}, patience=patience)
        self._project = f"/v1/projects/{quote(project_id, safe='')}"
        told = urlsplit(base_url)
        where = told.netloc.rpartition("@")[2]
        self.pages = f"{told.scheme}://{where}{quote(told.path.rstrip('/'))}/console"
        """The address of the console's pages: people read it, so it has neither a password nor a query."""

    def _ask(self, method: str, path: str, body: Json | None = None, key: str | None = None) -> Json:
        """Send one request to its answer. Raises ServiceRefused, GaveUp."""
        headers = {"idempotency-key": key} if key else {}
        return _told(self._client.ask(method, path, body, headers, again=_in_progress))

    def _pages(self, path: str, member: str) -> Iterator[Json]:
        cursor = ""
        for _ in range(MAX_PAGES):
            page = self._ask("GET", f"{path}{cursor}")
            listed, further = page.get(member), page.get("next_cursor")
            if not isinstance(listed, list):
                raise Malformed(f"The service's answer has no valid {member}.")
            yield from listed
            if not further:
                return
            cursor = f"{'&' if '?' in path else '?'}cursor={quote(str(further), safe='')}"

    def open_runs(self) -> list[Json]:
        """The open runs of the credential's automation, oldest first."""
        found = self._pages(f"{self._project}/automation-runs", "runs")
        return [run for run in map(check_run, found) if run["finished_at"] is None][::-1]

    def receipts(self) -> list[Json]:
        """The receipts to begin a run with, claimed ones first."""
        path = f"{self._project}/automation-trigger-receipts?status="
        found = [one for status in ("claimed", "issued") for one in self._pages(path + status, "trigger_receipts")]
        return [check_receipt(one) for one in found]

    def claim(self, receipt: Json) -> Json:
        """Claim the exact revision of the receipt's case."""
        case = receipt["case"]
        wish = {"trigger_receipt_id": receipt["receipt_id"], "case_revision": case["case_revision"]}
        path = f"/v1/cases/{case['case_id']}/claims"
        return check_claim(self._ask("POST", path, wish, f"claim-{receipt['receipt_id']}"))

    def start(self, receipt: Json) -> Json:
        """Start the one run of a receipt."""
        wish = {"trigger_receipt_id": receipt["receipt_id"]}
        path = f"{self._project}/automation-runs"
        return check_run(self._ask("POST", path, wish, f"start-{receipt['receipt_id']}"))

    def release(self, claim: Json, reason: str) -> None:
        """Release a claim without a run."""
        path = f"/v1/cases/{claim['case_id']}/claims/{claim['claim_id']}/release"
        self._ask("POST", path, {"lease_epoch": claim["lease_epoch"], "reason": reason})

    def run(self, run_id: str) -> Json:
        """Read a run."""
        if not ID(run_id):
            raise Malformed("This is no valid run_id.")
        return _same(check_run(self._ask("GET", f"/v1/automation-runs/{run_id}")), run_id)

    def changed_run(self, run: Json, seconds: float) -> tuple[Json, float | None]:
        """Read a run after its next change, or after some seconds: the next heartbeat is due then.

        An older service answers at once, and may name a pause.
        """
        wait = int(max(1, min(WAIT_SECONDS, seconds)))
        path = f"/v1/automation-runs/{run['run_id']}?wait={wait}&revision={run['state_revision']}"
        answer = self._client.ask("GET", path, seconds=wait + 15)
        return _same(check_run(_told(answer)), run["run_id"]), retry_after(answer)

    def policy(self, run: Json) -> Json:
        """Read the policy of a run."""
        return check_policy(self._ask("GET", f"/v1/automation-runs/{run['run_id']}/policy"))

    def case(self, run: Json) -> Json:
        """Read the evidence of the claimed case."""
        return self._ask("GET", f"/v1/cases/{run['case_id']}")

    def renew(self, run: Json) -> Json:
        """Extend the lease. ServiceRefused once the run must not go on."""
        path = f"/v1/cases/{run['case_id']}/claims/{run['claim_id']}/renew"
        return self._ask("POST", path, {"lease_epoch": run["lease_epoch"]})

    def step(self, run: Json, method: str, step: str, body: Json) -> Json:
        """Take a step of a run."""
        fence = {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"]}
        key = f"{run['run_id']}:{step}:{run['state_revision']}"
        return self._ask(method, f"/v1/automation-runs/{run['run_id']}{step}", fence | body, key)


def _told(answer: JsonAnswer) -> Json:
    if answer.status not in (200, 201, 202) or not isinstance(answer.body, dict):
        raise ServiceRefused(answer)
    return answer.body


def _same(run: Json, run_id: str) -> Json:
    """Return a run if it is the one that was asked for. Raises Malformed."""
    if run["run_id"] != run_id:
        raise Malformed("The service's answer has the run_id of another run.")
    return run
