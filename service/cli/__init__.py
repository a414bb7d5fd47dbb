"""The command line, `service`: one module per command group, imported when it is used."""

import importlib
import os
from keyword import iskeyword
from typing import Any

import click

COMMANDS = {
    "serve": ("serve", "Run the API, the worker and, by default, the database, until Ctrl-C."),
    "worker": ("serve", "Run one more worker."),
    "doctor": ("doctor", "Check this installation for problems."),
    "db": ("database", "Migrate, back up and restore the database."),
    "events": ("events", "Read, export and verify the history."),
    "log": ("log", "Show the signed log, and continue it after a restore."),
    "witness": ("witness", "Cosign the logs of other installations."),
    "projections": ("projections", "Rebuild and verify the read models."),
    "machines": ("machines", "List and draw the state machines."),
    "pause": ("stops", "Stop every automation of the installation."),
    "resume": ("stops", "Lift that stop. Owners then enable again."),
    "telemetry": ("telemetry", "Look at the copy of telemetry in ClickHouse, and fill it."),
    "jobs": ("jobs", "List background jobs and retry failed ones."),
    "cases": ("cases", "Look at how errors are grouped into cases."),
    "import": ("imports", "Bring events that Sentry, GlitchTip or Bugsink exported, over HTTP."),
    "apply": ("apply", "Save a contract from a file, disabled, over HTTP."),
    "keys": ("people", "API keys of people, and their sign-ins."),
    "console": ("people", "The way of people into the console."),
    "members": ("people", "Members of projects."),
    "feedback": ("people", "Feedback of people about the service."),
    "demo": ("demo", "Show the whole job with a small real product."),
    "conformance": ("conformance", "Play the service to a runner, and name the rule it breaks."),
    "openapi": ("openapi", "Print the schema document of the API."),
}


class Commands(click.Group):
    """The commands by name. Only the one that runs is imported; help shows the lines above."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"service.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an expected failure prints one sentence and exits with code 1."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            from service.cli.shared.common import advised, printable
            from service.cli.shared.failures import explain

            if isinstance(error, click.ClickException):
                error.__dict__["message"] = advised(printable(error.message))  # final for type checkers
                raise
            sentence = explain(error)
            if sentence is None:
                raise
            raise click.ClickException(advised(printable(sentence))) from error


def _show_release(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version and the commit of this release."""
    if wanted:
        from service import release
        from service.cli.shared.common import say

        say(f"{release.VERSION} (commit {release.commit()})")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_release,
              help="Show the version and the commit, and exit.")  # fmt: skip
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    help="Directory of the embedded database and its secrets, instead of SERVICE_DATA_DIR.",
)
def main(data_dir: str | None) -> None:
    """Observe a software product and coordinate bounded automation around it.

    Settings come from the environment (SERVICE_*), see README. Without SERVICE_DATABASE_URL each command finds, or
    starts for its own time, the PostgreSQL in the data directory. Only `serve`, `db migrate`, `db restore`, `demo` and
    `conformance` make one where there is none.
    """
    if data_dir is None:
        return
    if named := [name for name in ("SERVICE_DATABASE_URL", "SERVICE_DATABASE_URL_FILE") if os.environ.get(name)]:
        raise click.UsageError(f"--data-dir means the embedded database, but {named[0]} names another one. Unset it.")
    os.environ["SERVICE_DATA_DIR"] = os.path.abspath(data_dir)  # noqa: PTH100 (pathlib would be loaded for help, too)
