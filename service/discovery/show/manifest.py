"""The setup manifest: the variables of a setup, their stores, and the checks (R-DISC-07, R-DISC-08).

Credentials of runners and CI are in the stores of these alone: the owner's environment never holds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from schemas.discovery.manifest import (
    FrameworkVariables,
    HostVariables,
    LocalState,
    Place,
    PreflightCheck,
    PreflightChecks,
    PublicQueries,
    SetupManifest,
    SetupVariable,
)

KEY: Final = "SERVICE_API_KEY"
DSN: Final = "SERVICE_DSN"
CI: Final = "SERVICE_CI_API_KEY"
RUNNER: Final = "SERVICE_RUNNER_API_KEY"
PROOF: Final = "SERVICE_ONBOARDING_PROOF"

LANGUAGES: Final[tuple[tuple[str, Place, str], ...]] = (
    ("node", "server", "process.env.SERVICE_DSN"),
    ("browser", "browser", "a constant of the build, or the answer of your own server"),
    ("python", "server", 'os.environ["SERVICE_DSN"]'),
    ("ruby", "server", 'ENV.fetch("SERVICE_DSN")'),
    ("go", "server", 'os.Getenv("SERVICE_DSN")'),
    ("php", "server", 'getenv("SERVICE_DSN")'),
    ("java", "server", 'System.getenv("SERVICE_DSN")'),
    ("dotnet", "server", 'Environment.GetEnvironmentVariable("SERVICE_DSN")'),
    ("rust", "server", 'std::env::var("SERVICE_DSN")'),
    ("elixir", "server", 'System.fetch_env!("SERVICE_DSN")'),
    ("curl", "ci", "$SERVICE_CI_API_KEY"),
)
"""Each language with a snippet, the place where its code runs, and the way it reads its secret."""

Path = Callable[[str], str]


def manifest(base_url: str, path: Path) -> SetupManifest:
    """Describe a setup. `path` finds the path of an operation by its id."""
    return SetupManifest(
        schema_version=1,
        principle=(
            "Each part reads its own credential from its own secret store. No credential is in the repository, in a "
            "bundle or in a log."
        ),
        project_setup_endpoint=base_url + path("get_setup"),
        runtime_env=[
            _variable(DSN, "server", "Lets the product send errors and events into one project."),
            _variable(PROOF, "server", "Marks what a run of the product proves. Set while a proof is open.", False),
        ],
        owner_env=[
            _variable(KEY, "owner", "API key of a person. An agent that works for the person uses it."),
            _variable("SERVICE_PRIVATE_API_KEY", "owner", f"Another name for {KEY}.", False),
        ],
        framework_env_matrix=[
            FrameworkVariables(
                language=language,
                where=where,
                reads=reads,
                variables=[CI if where == "ci" else DSN],
                snippet=f"{base_url}{path('get_install_sdk').replace('{language}', language)}",
            )
            for language, where, reads in LANGUAGES
        ],
        host_env_matrix=_hosts(),
        env_preflight_checks=_checks(base_url, path),
        local_state=LocalState(
            keep=["plan.json", "source-snapshot.mjs"],
            delete=["device.json", "key.json", "project.json", "ci.json", "runner.json", "proof.json"],
            never_commit=[KEY, DSN, CI, RUNNER, PROOF],
            resume_from=f"GET {base_url}{path('get_next_steps')}",
        ),
        public_queries=PublicQueries(
            publish=f"POST {base_url}{path('create_public_query')}",
            read=f"GET {base_url}{path('run_public_query')}",
            key_parameter="key",
            note="Anybody with the publishable key can read the rows of this one query. It reaches nothing else.",
        ),
        next_action=f"Read {base_url}{path('get_install_guide')} and begin with its first command.",
    )


def _variable(name: str, where: Place, purpose: str, required: bool = True) -> SetupVariable:
    return SetupVariable(name=name, secret=True, required=required, where=where, purpose=purpose)


def _hosts() -> list[HostVariables]:
    hosts = (
        ("server or container", "environment of the process", [DSN], "Restart the process after a change."),
        ("serverless function", "environment of the function", [DSN], "Deploy again after a change."),
        (
            "static site",
            "build of the bundle",
            [DSN],
            "Build the public DSN in. It can send, and read no data.",
        ),
        ("ci", "secret store of the CI", [CI], "For the job that records deploys and proves pull requests."),
        ("scheduler of a runner", "secret store of the scheduler", [RUNNER], "One credential for each automation."),
        ("workstation of the owner", "password manager or keychain", [KEY], "Never a file of the repository."),
    )
    return [HostVariables(host=host, store=store, variables=names, note=note) for host, store, names, note in hosts]


def _checks(base_url: str, path: Path) -> PreflightChecks:
    def check(what: str, remedy: str) -> PreflightCheck:
        return PreflightCheck(check=what, when_it_fails=remedy)

    return PreflightChecks(
        api_key=check(
            f"GET {base_url}{path('list_projects')} with {KEY} answers 200.",
            f"Sign in: POST {base_url}{path('start_device')}.",
        ),
        dsn=check(
            f"POST {base_url}{path('verify_dsn')} with {KEY} and the DSN answers 200.",
            f"An owner reads it: GET {base_url}{path('read_dsn')}.",
        ),
        ci_credential=check(
            f"GET {base_url}{path('list_credentials')} shows a live ci_deploy credential.",
            f"An owner makes one: POST {base_url}{path('create_credential')}.",
        ),
        runner_credential=check(
            f"GET {base_url}{path('list_credentials')} shows a live one for each enabled automation.",
            f"An owner makes one: POST {base_url}{path('create_credential')}.",
        ),
        tools=check("bash, curl, python3, git and Node.js 20 or later are there.", "Install what is missing."),
        service=check(f"GET {base_url}{path('get_ready')} answers 200.", "Wait, then ask again."),
    )
