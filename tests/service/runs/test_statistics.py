"""The statistics of a verdict over HTTP, and the bound of a project (G-173, G-202)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server
HOUR = 3_600


def past(at: HttpScene, hours: int, *, errors: int = 1, traffic: int = 2) -> None:
    """Hours of errors and traffic before the repair."""
    at.world.secrets["dsn"] = at.must(at.world.call("GET", f"{at.project}/dsn"))["dsn"]
    for _ in range(hours):
        at.error(errors)
        at.traffic(traffic)
        at.wait(HOUR)


def deployed(at: HttpScene) -> None:
    """A repair is delivered, proven and deployed, and three sample events come within a minute."""
    at.delivered()
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(60)
    at.traffic(3)


def ask(at: HttpScene, maximum: float | None, etag: str | None = None) -> dict[str, Any]:
    body = {"maximum_error_probability": maximum}
    return at.must(at.call("PATCH", f"{at.project}/settings", body, who="owner", etag=etag), 200)


def test_a_verdict_tells_how_likely_it_is_wrong(at: HttpScene) -> None:
    past(at, 4)
    deployed(at)
    at.wait(10)
    pending = at.must(at.verify(), 202)["verification_statistics"]
    assert (pending["errors_after"], pending["exposure_after"]) == (0, 3)
    assert at.run()["verification_statistics"] is None, "there is no result yet"
    at.wait(900)
    done = at.must(at.verify(), 200)
    told = at.run()["verification_statistics"]
    assert done["verification_statistics"] == done["run"]["verification_statistics"] == told
    before, exposure = told["errors_before"], told["exposure_before"]
    assert before >= 3
    assert exposure >= 8
    assert told["before_from"] % 60 == 0
    assert told["error_probability"] == pytest.approx((exposure / (exposure + 3)) ** before, rel=1e-5)
    assert told["maximum_error_probability"] is None
    assert told["rate_ratio_low"] == 0
    assert told["exposure_missing_1_percent"] > told["exposure_missing_5_percent"] >= 0
    assert told["sentence"].startswith("If nothing was fixed")
    assert "statistics" not in str(at.run()["output"]), "the output is closed"
    record = at.must(at.call("GET", f"/v1/cases/{at.case_id}", who="owner"), 200)
    assert record["verification_statistics"] == told


def test_a_recurrence_is_compared_too(at: HttpScene) -> None:
    past(at, 3)
    at.delivered()
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(2)
    at.traffic(1)
    at.error()
    at.wait(3)
    told = at.must(at.verify(), 200)["verification_statistics"]
    assert (told["errors_after"], told["exposure_missing_5_percent"]) == (1, None)
    assert told["sentence"].endswith("not fixed.")


def test_without_traffic_before_nobody_can_say(at: HttpScene) -> None:
    at.delivered()
    at.must(at.prove(), 201)
    with psycopg.connect(at.world.url, autocommit=True) as sql:
        sql.execute("delete from analytics_events where project_id = %s", (at.world.project_id,))
    at.deploy()
    at.wait(60)
    at.traffic(3)
    at.wait(900)
    told = at.must(at.verify(), 200)["verification_statistics"]
    assert (told["exposure_before"], told["error_probability"]) == (0, None)
    assert "no traffic before" in told["sentence"]


def test_a_success_waits_for_the_probability_that_a_project_asks_for(at: HttpScene) -> None:
    past(at, 3)
    ask(at, 0.05)
    deployed(at)
    at.wait(60)
    pending = at.must(at.verify(), 202)
    assert pending["verification"]["outcome"] == "pending"
    told = pending["verification_statistics"]
    assert told["maximum_error_probability"] == 0.05
    assert told["error_probability"] > 0.05
    at.traffic(told["exposure_missing_5_percent"])
    at.wait(5)
    done = at.must(at.verify(), 200)
    assert (done["verification"]["passed"], done["verification"]["outcome"]) == (True, "no_recurrence")
    assert done["verification_statistics"]["error_probability"] <= 0.05


def test_the_deadline_ends_the_wait_for_it(at: HttpScene) -> None:
    past(at, 3)
    ask(at, 0.001)
    deployed(at)
    at.wait(900)
    done = at.must(at.verify(), 200)
    assert (done["verification"]["passed"], done["verification"]["outcome"]) == (False, "insufficient_traffic")


def test_no_success_commits_after_the_answer_of_a_stricter_bound(at: HttpScene) -> None:
    """Eight verifications and the change race: whoever comes after the change is judged by it (G-202)."""
    past(at, 2)
    deployed(at)
    at.wait(120)
    with ThreadPoolExecutor(9) as pool:
        verified = [pool.submit(at.verify) for _ in range(8)]
        ask(at, 0.001)
        after = at.run()["status"]
        answers = [one.result() for one in verified]
    assert at.run()["status"] == after, "nothing was decided after the answer"
    passed = [one.json()["verification"]["passed"] for one in answers if one.status_code == 200]
    assert all(passed)
    assert bool(passed) == (after == "succeeded")


def test_a_looser_bound_turns_an_enabled_contract_off(at: HttpScene) -> None:
    at.prepare()
    etag = ask(at, 0.05)["etag"]
    etag = ask(at, 0.01, etag)["etag"]
    loosened = ask(at, 0.2, etag)
    assert loosened["automations_disabled"] == ["heal"]


def validated(at: HttpScene) -> dict[str, Any]:
    saved = at.must(at.call("GET", at.world.contract, who="owner"), 200)
    names = ("playbook", "bindings", "readiness_assertions", "policy")
    entries = [{name: entry[name] for name in names} for entry in saved["automations"]]
    body = {"policy_version": 2, "automations": entries}
    return at.must(at.call("POST", f"{at.world.contract}/validate", body, who="member"), 200)


def test_validate_proposes_a_sample_size_from_the_history_of_cases(at: HttpScene) -> None:
    past(at, 5, errors=2, traffic=4)
    at.prepare()
    found = validated(at)
    [size] = found["proposed_sample_sizes"]
    assert (size["case_id"], size["automation_id"], size["error_probability"]) == (at.case_id, "heal", 0.05)
    errors, exposure = 9, 21
    assert size["min_sample_size"] == pytest.approx(exposure * (0.05 ** (-1 / errors) - 1), abs=3)
    assert 0 < size["days"] < 1
    assert found["warnings"] == []


def test_validate_warns_of_a_bound_that_no_case_reaches_in_time(at: HttpScene) -> None:
    past(at, 3)
    at.prepare()
    ask(at, 0.001)
    found = validated(at)
    assert [(one["automation_id"], one["code"]) for one in found["warnings"]] == [
        ("heal", "error_probability_out_of_reach")
    ]
    assert [size["error_probability"] for size in found["proposed_sample_sizes"]] == [0.001]
    assert found["readiness"]["ready"], "a warning prevents nothing"


def test_validate_proposes_nothing_while_the_history_cannot_be_read(at: HttpScene) -> None:
    past(at, 3)
    at.prepare()
    ask(at, 0.001)
    with psycopg.connect(at.world.url) as sql:
        sql.execute("lock table erased_records in access exclusive mode")
        found = validated(at)
    assert (found["proposed_sample_sizes"], found["warnings"]) == ([], [])
    assert found["readiness"]["ready"]
