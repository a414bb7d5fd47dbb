"""Messages for expected failures, which have causes outside of the program. Imported only after one."""

import psycopg
from psycopg_pool import PoolTimeout

from service.embedded.layout import EmbeddedError
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.declare.faults import StreamFault, StreamIsNewer
from service.eventstore.schema.migrations import MigrationError, UnfitDatabase
from service.eventstore.schema.roles import RoleError
from service.fairness.turns import CommandNotDone
from service.history.rebuild import RebuildRunning, TableIsNewer
from service.process.children import CannotListen
from service.settings import SettingsError
from statemachines.kernel.machine import Rejection
from statemachines.kernel.topics import UnknownTopic


def explain(error: Exception) -> str | None:
    """The message for an expected failure, None for a bug."""
    match error:
        case SettingsError():
            sentence = "The settings cannot be used.\n  " + "\n  ".join(error.problems)
        case CannotListen() | EmbeddedError() | MigrationError() | UnfitDatabase():
            sentence = str(error)
        case Rejection():
            sentence = " ".join(filter(None, (str(error), error.next_action, f"({error.code})")))
        case StreamIsNewer(topic=topic) | UnknownTopic(topic=topic):
            sentence = f"A later release of the service wrote this ({topic}). Use that release, or a later one."
        case StreamFault():
            sentence = str(error)
        case CommandNotDone():
            sentence = "The database was too busy. Nothing was done. Try again."
        case OutcomeUnknown():
            sentence = "The database did not confirm. Check the result before you try again."
        case RoleError():
            sentence = str(error)
        case psycopg.errors.InsufficientPrivilege():
            sentence = (
                f"The role of SERVICE_DATABASE_URL may not do this ({str(error).strip()}). "
                "`service db grant-auditor` grants rights to a role that only reads, `service db migrate` to the one "
                "that serves."
            )
        case psycopg.errors.DiskFull() | psycopg.errors.ReadOnlySqlTransaction():
            sentence = f"The database takes no writes. Make room on its disk, then try again ({str(error).strip()})."
        case RebuildRunning():
            sentence = f"The read model is in use, or another process is rebuilding it: {error}"
        case TableIsNewer():
            sentence = f"A later release added columns to this read model. Rebuild it with that release: {error}"
        case psycopg.OperationalError() | PoolTimeout():
            sentence = f"The database cannot be reached: {str(error).strip()}"
        case OSError(strerror=str(reason), filename=str() | bytes() as name):
            sentence = f"{reason}: {name!s}"
        case _:
            return None
    return sentence
