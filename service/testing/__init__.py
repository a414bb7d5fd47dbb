"""Property tests of an installation: strategies, a model of onboarding, and walks against both.

Needs Hypothesis, an extra of this package: `pip install '.[testing]'` in a checkout. `OnboardingWalk` sends random
steps to a driver and compares every answer with the model. `HttpDriver` is a driver for a running service.
"""

try:
    import hypothesis as _hypothesis  # noqa: F401
except ImportError as missing:
    raise ImportError(
        "service.testing needs Hypothesis. In a checkout of the service: pip install '.[testing]'."
    ) from missing

from service.testing.onboarding_model import OnboardingModel, StepAnswer
from service.testing.over_http import HttpDriver
from service.testing.walks import (
    OnboardingDriver,
    OnboardingWalk,
    Shown,
    error_reports,
    forward_steps,
    product_events,
    steps,
)

__all__ = [
    "HttpDriver",
    "OnboardingDriver",
    "OnboardingModel",
    "OnboardingWalk",
    "Shown",
    "StepAnswer",
    "error_reports",
    "forward_steps",
    "product_events",
    "steps",
]
