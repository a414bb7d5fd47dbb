"""`service conformance`: plays the service to a runner, and names the rule it breaks."""

import json
import signal
import sys

import click

from service.cli.shared.common import json_option, say

BROKE_A_RULE = 1
SHORTEST, LONGEST = 5, 3600


class _WorldFailed(click.ClickException):
    """The kit could not play: that is no verdict on the runner."""

    exit_code = 2


@click.command()
@click.option("--runner", "command", metavar="CMD", help="Command of the runner, for a shell.")
@click.option("--only", "names", metavar="SCENARIO", multiple=True, help="Play this scenario alone. May be repeated.")
@click.option("--list", "listing", is_flag=True, help="List the scenarios, and play none.")
@click.option(
    "--timeout",
    type=click.IntRange(SHORTEST, LONGEST),
    default=60,
    show_default=True,
    help="Seconds for each scenario.",
)
@json_option
def conformance(command: str | None, names: tuple[str, ...], listing: bool, timeout: int, as_json: bool) -> None:
    """Play the service to a runner, and name the rule it breaks.

    The kit starts a service of its own, and for each scenario a project, a code host and a checkout. The runner finds
    them in its environment: SERVICE_URL, SERVICE_RUNNER_API_KEY, SERVICE_PROJECT_ID, CHECKOUT, GITHUB_API_URL and
    others. Exit code 0: no rule was broken. 1: one was. 2: nothing could be played.
    """
    from service.conformance.kit import document, lines_of, listed, own_service, play_all, sum_up
    from service.conformance.scenarios import SCENARIOS
    from service.testing.shop import WorldFailed

    unknown = sorted(set(names) - {scenario.name for scenario in SCENARIOS})
    if unknown:
        known = ", ".join(scenario.name for scenario in SCENARIOS)
        raise click.UsageError(f"There is no scenario {', '.join(unknown)}. There are: {known}.")
    chosen = [one for one in SCENARIOS if (one.name in names if names else listing or not one.on_request)]
    if listing:
        for line in listed(chosen):
            say(line)
        return
    if not command:
        raise click.UsageError("Name the command of the runner with --runner.")
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    try:
        with own_service() as own:

            def tell(played: object) -> None:
                if not as_json:
                    for line in lines_of(played):  # type: ignore[arg-type]
                        say(line)

            played = play_all(chosen, own.installation, command, own.directory, timeout=timeout, tell=tell)
    except WorldFailed as failure:
        raise _WorldFailed(str(failure)) from failure
    say(json.dumps(document(command, played), indent=2) if as_json else sum_up(played))
    if not all(one.passed for one in played):
        raise SystemExit(BROKE_A_RULE)
