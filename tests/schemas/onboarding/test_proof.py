"""The wire contracts of a proof (R-ONB-28 to R-ONB-34)."""

from __future__ import annotations

from schemas.onboarding.proof import OneTimeMarkers
from tests.support.plans import accepts, set_at


def test_markers_have_fixed_names_and_bounded_values() -> None:
    """A marker's value has 20 to 1000 characters, its places fixed names (R-ONB-28, R-ONB-29)."""
    body = {
        "runtime": {
            "property_name": "service_onboarding_proof",
            "value": "v" * 20,
            "environment_variable": "SERVICE_ONBOARDING_PROOF",
            "browser_session_storage_key": "service_onboarding_proof",
        },
        "ci": {
            "header_name": "X-Service-Onboarding-Proof",
            "value": "v" * 1000,
            "environment_variable": "SERVICE_ONBOARDING_PROOF",
        },
    }
    assert accepts(OneTimeMarkers, body)
    for part in ("runtime", "ci"):
        for length in (19, 1001):
            assert not accepts(OneTimeMarkers, set_at(body, (part, "value"), "v" * length))
        for name in set(body[part]) - {"value"}:
            assert not accepts(OneTimeMarkers, set_at(body, (part, name), "other"))
