"""The packages to install: those of the code, and the pages of `docs/` as `service_docs`."""

from setuptools import find_namespace_packages, setup

CODE = ("service", "statemachines", "projections", "schemas")
PAGES = ("tutorial", "how-to", "reference", "reference.machines", "explanation", "pictures")

setup(
    packages=[
        *find_namespace_packages(include=[pattern for name in CODE for pattern in (name, f"{name}.*")]),
        "service_docs",
        *(f"service_docs.{folder}" for folder in PAGES),
    ],
    package_dir={"service_docs": "docs"},
)
