"""Whether a project's data arrives, and what waits for attention in it (R-PROJ-12)."""

from __future__ import annotations

from typing import NamedTuple

from service.billing.quota import Month, UsageSum, month_of, total_of
from service.billing.reads import account_of, account_usage, events_since, last_event_received_at, project_usage
from service.eventstore.store import EventStore
from statemachines.cases import case

HOUR = 3600
_STANDING = """
select (select max(d.recorded_at) from deploys d where d.project_id = %s),
    (select count(*) from cases c where c.project_id = %s and c.status = 'open')
        + (select count(*) from cases c where c.project_id = %s and c.status = 'overflow')
        - (select count(*) from case_stats s join cases c on c.project_id = s.project_id and c.id = s.id
            where s.project_id = %s and not s.unmarked and c.status = 'open' and not exists (
                select from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
                where m.project_id = s.project_id and m.merged_into = s.id and t.unmarked)),
    (select r.opened from case_rates r where r.project_id = %s and r.hour = %s),
    c.id, coalesce(c.status = 'overflow', false),
    not exists (select from projects p where p.project_id = wanted.project_id and p.id = wanted.project_id
        and p.status = 'active')
from (values (%s, %s)) wanted(project_id, id)
left join cases c on c.project_id = wanted.project_id and c.id = wanted.id
"""


class Health(NamedTuple):
    """What has arrived in a project until `now`; times in epoch seconds.

    `new_cases` are those of the present `hour`. What an onboarding proof alone has brought is none of `open_cases`.
    `overflow_open`: nobody has settled the overflow case of this hour yet. `fenced`: the project is being
    deleted.
    `total` is the project's in the `month`, `account_total` that of the account that pays for it.
    """

    now: int
    month: Month
    total: UsageSum
    account_total: UsageSum
    last_event_at: int | None
    last_deploy_at: int | None
    events_last_hour: int
    open_cases: int
    hour: int
    new_cases: int
    overflow_case_id: str | None
    overflow_open: bool
    fenced: bool


async def health_of(store: EventStore, project_id: str) -> Health:
    """Read when data last arrived and how much of it, in the current UTC month and in the last hour."""
    now = await store.now()
    month = month_of(now)
    total = total_of(await project_usage(store, project_id, month.start, month.last_day))
    account = await account_of(store, project_id)
    account_total = total_of(await account_usage(store, account, month.start, month.last_day))
    hour = now - now % HOUR
    overflow_id = case.case_id(project_id, case.overflow_fingerprint(hour))
    ids = (project_id, project_id, project_id, project_id, project_id, hour, project_id, overflow_id)
    [[last_deploy_at, open_cases, new_cases, overflow_case_id, overflow_open, fenced]] = await store.fetch(
        _STANDING, *ids
    )
    return Health(
        now=now,
        month=month,
        total=total,
        account_total=account_total,
        last_event_at=await last_event_received_at(store, project_id),
        last_deploy_at=last_deploy_at,
        events_last_hour=await events_since(store, project_id, now - HOUR),
        open_cases=open_cases,
        hour=hour,
        new_cases=new_cases or 0,
        overflow_case_id=overflow_case_id,
        overflow_open=overflow_open,
        fenced=fenced,
    )
