"""The CI bindings of a project as a file, and their difference from those in force (G-171).

The file has one member, `ci_bindings`: a list of bodies of `add_ci_binding`. It says all bindings of the project.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.credentials import AddCiBinding, CiBinding, CiBindingList
from schemas.kernel.shape import Closed
from service.cli.shared.contract_file import BadFile, ContractFile
from statemachines.credentials.binding import MOST_BINDINGS

MEMBER = "ci_bindings"
_COMPARED = ("issuer", "repository_id", "owner_id", "ref", "workflow")


class _Bindings(Closed, frozen=True):
    ci_bindings: Annotated[list[AddCiBinding], Meta(max_length=MOST_BINDINGS)]


def read_bindings(file: ContractFile) -> list[AddCiBinding]:
    """Read the bindings of a file. Raises BadFile."""
    try:
        return msgspec.convert(file.document, type=_Bindings).ci_bindings
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$.")
        path = path.rstrip("`")
        raise BadFile(f":{file.line_of(path)}: {path or 'the document'}: {said}") from None


def differ(saved: CiBindingList, wished: list[AddCiBinding]) -> tuple[list[AddCiBinding], list[CiBinding]]:
    """The bindings to add, and those to remove. A name is for people and makes no difference."""
    there = {_identity(binding) for binding in saved.bindings}
    wanted = {_identity(binding): binding for binding in wished}
    missing = [binding for identity, binding in wanted.items() if identity not in there]
    return missing, [binding for binding in saved.bindings if _identity(binding) not in wanted]


def described(binding: AddCiBinding | CiBinding) -> str:
    """A binding in one line."""
    environment = f" in {binding.environment}" if isinstance(binding.environment, str) else ""
    return f"binding {binding.name}: {binding.workflow} at {binding.ref} of {binding.repository_id}{environment}"


def _identity(binding: AddCiBinding | CiBinding) -> tuple[str, ...]:
    environment = binding.environment if isinstance(binding.environment, str) else ""
    return (*(getattr(binding, name) for name in _COMPARED), environment)
