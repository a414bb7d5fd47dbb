"""The scenarios by name, in the order in which they are shown."""

from __future__ import annotations

from service.conformance.play.part import Scenario
from service.conformance.scenarios import answers, authority, hostile, merging
from service.conformance.stage.world import Bounds

BY_HOST = Bounds(by_host=True)
NOTHING_FITS = Bounds(("kit-nowhere/**",), 1, 1)

SCENARIOS = (
    Scenario(
        "happy",
        "R-AUT-36",
        "Nothing goes wrong. CI proves the pull request and records its deploy.",
        "Claims, starts, charges, authorizes, consumes, opens one draft, and reports it.",
        answers.Happy,
    ),
    Scenario(
        "lost-answers",
        "G-008",
        "The first answer to each write but the consume is lost, after the service has done it.",
        "Sends the same request with the same Idempotency-Key, or reads the result first.",
        answers.LostAnswers,
    ),
    Scenario(
        "lost-consume",
        "R-AUT-32",
        "The answer to the consume is lost.",
        "Opens nothing: no later answer says call_authorized. It looks for a pull request, and escalates.",
        answers.LostConsume,
    ),
    Scenario(
        "busy",
        "G-012",
        "Two writes are refused with 429 and Retry-After: 2.",
        "Sends each again after two seconds, with its key.",
        answers.TooBusy,
    ),
    Scenario(
        "down",
        "R-ERR-08",
        "A read and two writes are refused with 503 and Retry-After: 2.",
        "Sends each again after two seconds, with its key.",
        answers.Down,
    ),
    Scenario(
        "pending",
        "G-108",
        "An approval waits three seconds for its owner.",
        "Goes on only after the decision, and does not hammer until then.",
        authority.Pending,
    ),
    Scenario(
        "moved",
        "R-AUT-30",
        "Another runner of the automation writes first, twice: 409 stale_state_revision.",
        "Reads the run again, and sends the step under the new revision.",
        authority.RunMoved,
    ),
    Scenario(
        "precondition",
        "G-009",
        "The authorize is refused with 412.",
        "Reads the run before it writes again.",
        authority.Precondition,
    ),
    Scenario(
        "cancelled",
        "R-AUT-51",
        "The owner cancels the run just before its grant is consumed.",
        "Stops. Pushes and opens nothing.",
        authority.Cancelled,
    ),
    Scenario(
        "bounds",
        "R-AUT-38",
        "No change fits the bounds of the contract.",
        "Declares what it changed, takes the refusal as an answer, and pushes nothing.",
        authority.OutOfBounds,
        NOTHING_FITS,
    ),
    Scenario(
        "hostile",
        "R-GEN-13",
        "The error's text gives orders to shells, terminals, people and agents.",
        "Repairs the error, and follows nothing of it.",
        hostile.HostileText,
    ),
    Scenario(
        "redirect",
        "R-CRED-15",
        "Two answers lead to another host.",
        "Does not take its credential there.",
        hostile.LeadAway,
    ),
    Scenario(
        "lease",
        "R-AUT-30",
        "The lease ends while the runner works.",
        "Writes nothing more to that run. Pushes and opens nothing.",
        authority.LeaseOver,
        moves_clock=True,
    ),
    Scenario(
        "auto-merge",
        "R-AUT-40",
        "The contract lets the code host merge. CI proves each step.",
        "Opens a ready pull request, waits for readiness, and turns auto-merge on under the second grant.",
        merging.AutoMerge,
        BY_HOST,
        on_request=True,
    ),
)
