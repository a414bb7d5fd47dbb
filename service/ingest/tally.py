"""Counts of a flush's analytics events by name: rows of each event, rows and JSON types of each of its keys.

Events of one name mostly have the same properties. Equal ones are counted as one first, and taken apart once (G-155).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from service.analytics.metadata import BITS, MAX_KEY
from service.eventstore.state.cache import RecordName
from service.ingest.grouping.fingerprint import Grouping, GroupingEvidence, title
from service.ingest.items import STORED, AnalyticsRow, Item, LogRow, Part
from service.ingest.people import PersonTold
from statemachines.cases import case


class NameSums(msgspec.Struct):
    """The sums of a flush for `ingest_names`. Places count from 1."""

    projects: list[str] = []
    project_rows: list[int] = []
    long_keys: list[int] = []
    name_places: list[int] = []
    names: list[str] = []
    name_rows: list[int] = []
    key_places: list[int] = []
    keys: list[str] = []
    key_rows: list[int] = []
    key_types: list[int] = []


class _NameTally:
    """Counts of one name: its rows, and rows and types of each key."""

    __slots__ = ("keys", "rows")

    def __init__(self) -> None:
        self.rows = 0
        self.keys: dict[str, list[int]] = {}


class NamesTally:
    """The names of the events in a flush."""

    def __init__(self) -> None:
        self._alike: dict[tuple[str, str, tuple[str, ...], tuple[type, ...]], int] = {}

    def add(self, project_id: str, event: str, properties: Mapping[str, Any]) -> None:
        """Count an event of a project."""
        kind = (project_id, event, tuple(properties), tuple(map(type, properties.values())))
        self._alike[kind] = self._alike.get(kind, 0) + 1

    def sums(self) -> NameSums | None:
        """All counts so far, or None without any event."""
        if not self._alike:
            return None
        sums = NameSums()
        projects = self._apart()
        for project_id in sorted(projects):
            sums.projects.append(project_id)
            sums.project_rows.append(sum(name.rows for name in projects[project_id].values()))
            sums.long_keys.append(0)
            for event, name in projects[project_id].items():
                sums.name_places.append(len(sums.projects))
                sums.names.append(event)
                sums.name_rows.append(name.rows)
                for key, (rows, types) in name.keys.items():
                    if len(key) > MAX_KEY:
                        sums.long_keys[-1] += rows
                        continue
                    sums.key_places.append(len(sums.names))
                    sums.keys.append(key)
                    sums.key_rows.append(rows)
                    sums.key_types.append(types)
        return sums

    def _apart(self) -> dict[str, dict[str, _NameTally]]:
        """The names of each project, with equal events taken apart."""
        projects: dict[str, dict[str, _NameTally]] = {}
        for (project_id, event, keys, types), count in self._alike.items():
            names = projects.setdefault(project_id, {})
            name = names.get(event)
            if name is None:
                name = names[event] = _NameTally()
            name.rows += count
            of_keys = name.keys
            for key, type_ in zip(keys, types, strict=True):
                found = of_keys.get(key)
                if found is None:
                    of_keys[key] = [count, BITS[type_]]
                else:
                    found[0] += count
                    found[1] |= BITS[type_]
        return projects


# What one batch stores, and what it adds to the counters: summed here, so that each counter row is touched once.

_encode = msgspec.json.Encoder().encode


class Assigned(NamedTuple):
    """The case that an error goes into, why, and how that case stands then.

    `opened_by` is what the case is called after if it has no counters yet; None when it is only counted. `regressed`:
    the error brought the case back.
    """

    case_id: str
    grouping: Grouping
    status: case.Status
    opened_by: GroupingEvidence | None = None
    regressed: bool = False


_SUPPRESSED = frozenset({case.Status.RESOLVED, case.Status.IGNORED})


class CaseTally(msgspec.Struct):
    """What is added to a row of case_stats; field names are its columns.

    `title`, `message`, `culprit` and `tags` are only taken from the first tally of a case, which makes its row.
    `public_count`
    are those of `event_count` by the public DSN, `server_environments` and `server_unmarked` are of the others.
    `server_seen`: one of these came after the last error by the public DSN that brought the case back, `doubted`: there
    was such an error. `happened`, `sent` and `by_public` are the times of its errors, `untimed`: some have
    none. `by_public` is null for an error of an import, whose time is taken as it is.
    """

    project_id: str
    id: str
    title: str = ""
    message: str = ""
    culprit: str | None = None
    tags: list[str] = []
    level: str = ""
    environment: str = ""
    release: str | None = None
    environments: list[str] = []
    releases: list[str] = []
    unmarked: bool = False
    event_count: int = 0
    public_count: int = 0
    server_environments: list[str] = []
    server_unmarked: bool = False
    server_seen: bool = False
    doubted: bool = False
    happened: list[int] = []
    sent: list[int | None] = []
    by_public: list[bool | None] = []
    untimed: bool = False


class UserTally(msgspec.Struct):
    """What is added to a row of case_users."""

    project_id: str
    case_id: str
    user_id: str
    user_email: str | None = None
    error_count: int = 0


class UsageTally(msgspec.Struct):
    """What is added to a row of usage_days."""

    project_id: str
    account_id: str
    errors: int = 0
    analytics: int = 0
    suppressed: int = 0
    scrubbed: int = 0
    scrubbed_kinds: dict[str, int] = {}


class PeopleTally(msgspec.Struct):
    """Names and properties of people from a batch, in its order."""

    people: list[PersonTold]


class KeyRecordTally(msgspec.Struct):
    """An idempotency record to write; `body` is the answer as text."""

    project_id: str
    principal: str
    operation: str
    key: str
    fingerprint: str
    command_id: str
    status: int
    body: str


class PartsTally(msgspec.Struct):
    """Records of an export that are stored, as a row of idempotency holds them: a 1 in the place of each in `parts`."""

    project_id: str
    principal: str
    operation: str
    key: str
    fingerprint: str
    command_id: str
    status: int
    parts: str


class _Parts(NamedTuple):
    """Those that a flush stores: the first of them, and their places as text."""

    first: Item
    places: bytearray


class Tally:
    """Everything a batch counts, and the rows that it copies."""

    def __init__(self) -> None:
        self.logs: list[LogRow] = []
        self.analytics: list[AnalyticsRow] = []
        self._key_records: dict[RecordName, KeyRecordTally] = {}
        self._parts: dict[RecordName, _Parts] = {}
        self._cases: dict[tuple[str, str], CaseTally] = {}
        self._users: dict[tuple[str, str, str], UserTally] = {}
        self._usage: dict[str, UsageTally] = {}
        self._names = NamesTally()
        self._people: list[PersonTold] = []

    def add(self, item: Item, assigned: Assigned | None, account_id: str) -> bool:
        """Take a record in and count it; `assigned` for an error. Returns whether a rule keeps it out of attention."""
        row = item.row
        suppressed = False
        if isinstance(row, AnalyticsRow):
            self.analytics.append(row)
            self._names.add(row.project_id, row.event, row.properties)
            if item.person is not None:
                self._people.append(item.person)
        else:
            self.logs.append(row)
            if assigned is not None:
                row.case_id, (_, row.fingerprint, row.grouped_by), status, opened_by, regressed = assigned
                imported = item.sender.importing is not None
                self._count_case(row, assigned.case_id, opened_by, regressed=regressed, imported=imported)
                suppressed = status in _SUPPRESSED
        if item.sender.importing is None:
            self._count_usage(item, account_id, suppressed=suppressed)
        return suppressed

    def remember(self, item: Item, received_at: int) -> bool:
        """Remember a record by its key, and the answer to it; False when there is one of the same key already."""
        assert item.key_record is not None, "a record with a key"
        if item.part is not None:
            return self._remember_part(item, item.key_record, item.part)
        if item.key_record in self._key_records:
            return False
        self._key_records[item.key_record] = KeyRecordTally(
            *item.key_record, item.sender.request_hash, item.row.id, STORED, item.answer(received_at).decode()
        )
        return True

    def _remember_part(self, item: Item, name: RecordName, part: Part) -> bool:
        parts = self._parts.get(name)
        if parts is None:
            parts = self._parts[name] = _Parts(item, part.none())
        elif part.is_in(parts.places):
            return False
        part.put_in(parts.places)
        return True

    def has_part(self, item: Item) -> bool:
        """Whether the same record of the same export is remembered."""
        assert item.key_record is not None, "a record with a key"
        parts = self._parts.get(item.key_record)
        return parts is not None and item.part is not None and item.part.is_in(parts.places)

    def _count_usage(self, item: Item, account_id: str, *, suppressed: bool) -> None:
        """Count a record toward its account."""
        project_id = item.sender.project_id
        usage = self._usage.get(project_id)
        if usage is None:
            usage = self._usage[project_id] = UsageTally(project_id, account_id)
        if isinstance(item.row, LogRow):
            usage.errors += 1
        else:
            usage.analytics += 1
        usage.suppressed += suppressed
        for kind, count in item.scrubbed.items():
            usage.scrubbed += count
            usage.scrubbed_kinds[kind] = usage.scrubbed_kinds.get(kind, 0) + count

    def _count_case(
        self, row: LogRow, case_id: str, opened_by: GroupingEvidence | None, *, regressed: bool, imported: bool
    ) -> None:
        """Count an error into its case; `opened_by` is the evidence when the case may have no counters yet."""
        key = (row.project_id, case_id)
        found = self._cases.get(key)
        if found is None:
            found = self._cases[key] = CaseTally(*key)
            if opened_by is not None:
                found.title, found.message, found.culprit = title(opened_by), opened_by.message, opened_by.frame
                found.tags = tags_of(row.tags)
        found.event_count += 1
        found.level, found.environment, found.release = row.level, row.environment, row.release
        if row.marker_hash is None:
            found.unmarked = True
        if row.happened is None:
            found.untimed = True
        else:
            found.happened.append(row.happened)
            found.sent.append(row.sent)
            found.by_public.append(None if imported else row.public)
        if row.environment not in found.environments:
            found.environments.append(row.environment)
        if row.public:
            found.public_count += 1
            if regressed:
                found.doubted, found.server_seen = True, False
        else:
            found.server_seen = True
            if row.marker_hash is None:
                found.server_unmarked = True
            if row.environment not in found.server_environments:
                found.server_environments.append(row.environment)
        if row.release is not None and row.release not in found.releases:
            found.releases.append(row.release)
        if row.user_id is not None:
            user_key = (row.project_id, case_id, row.user_id)
            user = self._users.get(user_key)
            if user is None:
                user = self._users[user_key] = UserTally(*user_key)
            user.error_count += 1
            email = row.user_data.get("email") if row.user_data else None
            if isinstance(email, str):
                user.user_email = email

    def parameters(self) -> tuple[str | None, ...]:
        """Rows of the tables that a flush writes, each as one JSON array (None: no rows), as `ingest_flush` takes them.

        Counter rows are locked as they are written; every batch anywhere writes them in the order of their keys. Behind
        the rows of usage come the sums of names and the news of people, if there are any.
        """
        usage = _in_order(self._usage)
        if (names := self._names.sums()) is not None:
            usage.append(names)
        if self._people:
            usage.append(PeopleTally(self._people))
        counters = (_in_order(self._cases), _in_order(self._users), usage)
        return tuple(_encode(rows).decode() if rows else None for rows in (self.logs, self.analytics, *counters))

    def key_record_parameter(self) -> str | None:
        """The idempotency records in the same form."""
        return _encode(list(self._key_records.values())).decode() if self._key_records else None

    def parts_parameter(self) -> str | None:
        """What is stored of exports, in the same form."""
        rows = [
            PartsTally(*name, first.sender.request_hash, first.row.id, STORED, places.decode())
            for name, (first, places) in self._parts.items()
        ]
        return _encode(rows).decode() if rows else None


MOST_TAGS, LONGEST_TAG = 30, 300
"""Tags of a first error that its case is found by, and the characters of each with its name."""


def tags_of(tags: Mapping[str, Any]) -> list[str]:
    """The tags of an error as `name=value`, those that are texts and short enough to look for."""
    told = [f"{name}={value}" for name, value in tags.items() if isinstance(value, str) and name and value]
    return [tag for tag in told if len(tag) <= LONGEST_TAG][:MOST_TAGS]


def _in_order(tallies: dict[Any, Any]) -> list[Any]:
    return [tallies[key] for key in sorted(tallies)]
