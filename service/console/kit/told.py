"""What a page says after an operation, and which answers show a secret once. An operation a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

DONE: Mapping[str, str] = {
    "pause_automation_contract": "The automation of this project is stopped.",
    "preferences": "Saved.",
}
"""The sentence after an operation or a form. One without any is told by its summary."""

SECRETS: Mapping[str, Sequence[tuple[str, str]]] = {
    "create_project": (("DSN", "dsn"),),
}
"""Operations whose answer shows a secret once: the label and the member of each."""
