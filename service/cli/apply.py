"""The command: compare a file with the saved contract, and save it disabled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from service.cli.shared.common import owner_key, say

if TYPE_CHECKING:
    from schemas.contracts.contract import AutomationContract, ContractValidation
    from service.cli.shared.contract_file import ContractFile, Remote


DIFFERS = 3


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--project", "project_id", required=True, metavar="ID", help="Project of the contract.")
@click.option(
    "--url",
    envvar="SERVICE_URL",
    default="http://127.0.0.1:8000",
    show_default=True,
    help="Address of the service, https unless it is this machine. SERVICE_URL sets it too.",
)
@click.option("--plan", is_flag=True, help="Show the difference and save nothing.")
def apply(file: str, project_id: str, url: str, plan: bool) -> None:
    """Save the contract in FILE, disabled, over HTTP with SERVICE_API_KEY.

    FILE is JSON, `-` is stdin. The command shows each changed member. It never enables anything. A file with the one
    member `ci_bindings` has the CI bindings of the project: missing ones are added, and all others removed.

    Exit code: 0 the same or saved, 3 differs (--plan), 1 refused, 2 used wrongly.
    """
    from schemas.contracts.contract import MAX_CONTRACT_BYTES
    from service.cli.shared.bindings_file import MEMBER
    from service.cli.shared.contract_file import ApplyRefused, BadAddress, BadFile, Remote, check_address, read

    try:
        remote = Remote(check_address(url), owner_key(), project_id)
    except BadAddress as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    try:
        with click.open_file(file, "rb") as opened:
            content = opened.read(MAX_CONTRACT_BYTES + 1)
        found = read(content)
        if MEMBER in found.document:
            _apply_bindings(file, found, remote, plan=plan)
        else:
            _apply(file, found, remote, plan=plan)
    except BadFile as error:
        raise click.ClickException(f"{file}{error}.") from None
    except ApplyRefused as refusal:
        raise click.ClickException(str(refusal)) from None
    finally:
        remote.close()


def _apply(name: str, file: ContractFile, remote: Remote, *, plan: bool) -> None:
    """Read, validate, compare, save."""
    from service.cli.shared.contract_file import difference, enabled_of

    saved = remote.read()
    verdict = _validate(name, file, remote)
    if saved is not None and saved.contract_sha256 == verdict.contract_sha256:
        say(f"The same as {_named(saved)}.")
        return
    say(f"Saved now: {_named(saved)}. In {name}:" if saved else f"Saved now: none. In {name}:")
    for line in difference(saved, file.document):
        say(line)
    if enabled := enabled_of(saved):
        say(f"Saving turns off: {', '.join(enabled)}.")
    for gap in verdict.readiness.gaps:
        say(f"Before {gap.automation_id} can be enabled: {gap.message}")
    if plan:
        say("It differs. Nothing was saved.")
        raise SystemExit(DIFFERS)
    _save(file, remote, saved, verdict)


def _apply_bindings(name: str, file: ContractFile, remote: Remote, *, plan: bool) -> None:
    """Compare the CI bindings in a file with those in force, and make these the same."""
    from service.cli.shared.bindings_file import described, differ, read_bindings
    from service.cli.shared.contract_file import MOVED, ApplyRefused

    wished = read_bindings(file)
    saved = remote.bindings()
    missing, surplus = differ(saved, wished)
    if not missing and not surplus:
        say(f"The same as the {saved.count} bindings in force.")
        return
    say(f"In force now: {saved.count}. In {name}:")
    for binding in missing:
        say(f"+ {described(binding)}")
    for ended in surplus:
        say(f"- {described(ended)}: {ended.live_credentials} live credentials end with it")
    if plan:
        say("It differs. Nothing was changed.")
        raise SystemExit(DIFFERS)
    etag = saved.etag
    try:
        for ended in surplus:
            etag = remote.remove_binding(ended.id, etag).etag
        for binding in missing:
            etag = remote.add_binding(binding, etag).etag
    except ApplyRefused as refusal:
        if refusal.code not in MOVED:
            raise
        raise ApplyRefused("Somebody else changes the bindings as well. Run the command again.") from None
    say(f"Added {len(missing)}, removed {len(surplus)}.")


def _validate(name: str, file: ContractFile, remote: Remote) -> ContractValidation:
    """Have the service validate the file. Ends with every fault at its line and path."""
    from service.cli.shared.contract_file import ApplyRefused

    try:
        verdict = remote.validate(file.text)
        if verdict.valid:
            return verdict
        faults = [(fault.path, fault.message) for fault in verdict.errors]
    except ApplyRefused as refusal:
        if not (faults := list(_faults_of(refusal.details))):
            raise
    for path, message in faults:
        say(f"{name}:{file.line_of(path)}: {path or 'the document'}: {message}", err=True)
    raise click.ClickException(f"The contract is not valid: {len(faults)} faults. Nothing was saved.")


def _faults_of(details: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The faults in a refused body."""
    yield from ((path, "is missing") for path in details.get("missing_fields", []))
    yield from ((path, "is unknown") for path in details.get("unknown_fields", []))
    yield from ((fault["field"], fault["reason"]) for fault in details.get("invalid_fields", []))


def _save(file: ContractFile, remote: Remote, saved: AutomationContract | None, verdict: ContractValidation) -> None:
    """Save in the place of the contract that was read. Anything else in that place stays."""
    from service.cli.shared.contract_file import MOVED, NO_ANSWER, ApplyRefused, state_difference

    try:
        made = remote.save(file.text, None if saved is None else saved.etag)
    except ApplyRefused as refusal:
        if refusal.code == NO_ANSWER:
            raise ApplyRefused(f"{refusal} Run the command again: it shows whether the contract was saved.") from None
        if refusal.code not in MOVED:
            raise
    else:
        say(f"Saved, disabled: {_named(made)}. An owner enables it with its ETag, {made.etag}.")
        return
    now = remote.read()
    if now is not None and now.contract_sha256 == verdict.contract_sha256:
        say(f"The same as {_named(now)}. Somebody else has just saved it.")
        return
    say("Meanwhile somebody else changed the saved contract:", err=True)
    for line in state_difference(saved, now):
        say(line, err=True)
    raise ApplyRefused("Nothing was overwritten. Look at the difference, then run the command again.")


def _named(contract: AutomationContract) -> str:
    return f"{contract.contract_id} at revision {contract.revision}"
