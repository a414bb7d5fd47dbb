"""Policies of C2SP tlog-policy: known logs, known witnesses, and how many of these make a quorum."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from service.tlog.notes import (
    COSIGNED_ED25519,
    COSIGNED_ML_DSA_44,
    ED25519,
    MalformedNote,
    SignedNote,
    VerifierKey,
    parse_checkpoint,
    parse_vkey,
    verify_note,
)

NONE: Final = "none"
MOST_BYTES = 1024 * 1024
MOST_NAMES = 256
_SPACE = re.compile("[ \t]+")
_COUNT = re.compile("[1-9][0-9]{0,5}")
_LOG_KINDS = {ED25519, COSIGNED_ML_DSA_44}
_WITNESS_KINDS = {COSIGNED_ED25519, COSIGNED_ML_DSA_44}


class BadPolicy(Exception):
    """A text is no policy. The message names the line."""


class Party(NamedTuple):
    """A log or a witness: its key, and its address where the policy has one."""

    key: VerifierKey
    url: str


class WitnessGroup(NamedTuple):
    """Witnesses or groups, of which so many have to cosign."""

    needed: int
    members: Sequence[str]


class TlogPolicy(NamedTuple):
    """A policy as it was read. `quorum` is the name of a witness or a group, or `none`."""

    logs: Sequence[Party]
    witnesses: Mapping[str, Party]
    groups: Mapping[str, WitnessGroup]
    quorum: str

    def satisfied(self, cosigned: Collection[str]) -> bool:
        """Whether these witnesses are a quorum."""
        return self.quorum == NONE or self._has(self.quorum, cosigned)

    def accepts(self, note: SignedNote) -> bool:
        """Whether a checkpoint is signed by one of the logs under its own origin, and cosigned by a quorum.

        Raises MalformedNote and BadSignature.
        """
        origin = parse_checkpoint(note.text).origin
        logs = [party.key for party in self.logs if party.key.name == origin]
        verify_note(note, logs)
        known = {party.key: name for name, party in self.witnesses.items()}
        found = {key for key, _ in verify_note(note, [*logs, *known])}
        return self.satisfied({name for key, name in known.items() if key in found})

    def _has(self, name: str, cosigned: Collection[str]) -> bool:
        group = self.groups.get(name)
        if group is None:
            return name in cosigned
        return sum(self._has(member, cosigned) for member in group.members) >= group.needed


def parse_policy(raw: bytes) -> TlogPolicy:
    """Read a policy. Its names are octets, which stand here as text of as many characters. Raises BadPolicy."""
    if len(raw) > MOST_BYTES:
        raise BadPolicy("The policy is too long.")
    if any((octet < 0x20 and octet not in b"\t\n") or octet == 0x7F for octet in raw):  # noqa: PLR2004 - as the document has it
        raise BadPolicy("The policy has control characters.")
    reader = _Reader()
    for number, line in enumerate(raw.decode("utf-8", "surrogateescape").split("\n"), 1):
        words = _SPACE.split(line.strip(" \t"))
        if not words[0] or words[0].startswith("#"):
            continue
        try:
            reader.take(words)
        except (BadPolicy, MalformedNote) as error:
            raise BadPolicy(f"Line {number}: {error}") from error
    if reader.quorum is None:
        raise BadPolicy("The policy has no quorum.")
    return TlogPolicy(reader.logs, reader.witnesses, reader.groups, reader.quorum)


class _Reader:
    """What the lines so far have said."""

    def __init__(self) -> None:
        self.logs: list[Party] = []
        self.witnesses: dict[str, Party] = {}
        self.groups: dict[str, WitnessGroup] = {}
        self.quorum: str | None = None
        self._listed: set[str] = set()

    def take(self, words: Sequence[str]) -> None:
        """Read a line. Raises BadPolicy and MalformedNote."""
        match words:
            case ["log", vkey, *url] if len(url) <= 1:
                party = self._party(vkey, url, _LOG_KINDS, [log.key for log in self.logs])
                self.logs.append(party)
            case ["witness", name, vkey, *url] if len(url) <= 1:
                party = self._party(vkey, url, _WITNESS_KINDS, [known.key for known in self.witnesses.values()])
                self._check_new(name)
                self.witnesses[name] = party
            case ["group", name, count, *members] if members:
                self._check_members(members)
                self._check_new(name)
                self.groups[name] = WitnessGroup(_needed(count, len(members)), members)
            case ["quorum", name]:
                if self.quorum is not None:
                    raise BadPolicy("There is a quorum already.")
                if name != NONE and not self._is_known(name):
                    raise BadPolicy("The quorum is defined nowhere above.")
                self.quorum = name
            case _:
                raise BadPolicy("This is no line of a policy.")

    def _party(self, vkey: str, url: Sequence[str], kinds: set[int], others: Sequence[VerifierKey]) -> Party:
        key = parse_vkey(vkey)
        if key.kind not in kinds:
            raise BadPolicy("The key is of another type.")
        if any(other.public_key == key.public_key for other in others):
            raise BadPolicy("The key is there twice.")
        if len(others) >= MOST_NAMES:
            raise BadPolicy("The policy has too many keys.")
        return Party(key, "".join(url))

    def _check_new(self, name: str) -> None:
        if name == NONE or self._is_known(name):
            raise BadPolicy("The name is taken.")
        if len(self.groups) >= MOST_NAMES:
            raise BadPolicy("The policy has too many groups.")

    def _check_members(self, members: Sequence[str]) -> None:
        for member in members:
            if not self._is_known(member):
                raise BadPolicy("A member is defined nowhere above.")
            if member in self._listed:
                raise BadPolicy("A member belongs to a group already.")
            self._listed.add(member)

    def _is_known(self, name: str) -> bool:
        return name in self.witnesses or name in self.groups


def _needed(count: str, members: int) -> int:
    if count in {"any", "all"}:
        return 1 if count == "any" else members
    if not _COUNT.fullmatch(count) or int(count) > members:
        raise BadPolicy("The number is not one from 1 to that of the members.")
    return int(count)
