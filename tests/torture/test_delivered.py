"""The check of the storm of deliveries finds what it is there for."""

from __future__ import annotations

import json
import time

from service.webhooks.sending import delivery_id, headers, make_secret
from tests.support.api import Api
from tests.support.listening import Arrived
from tests.torture.deliveries import Receiver, Shop, ToldEvent, check

SECRET = make_secret()
SHOP = Shop(Api.__new__(Api), Api.__new__(Api), "proj_1", "wh_1", SECRET)
NAMES = ("case.created", "case.resolved", "case.regressed")
EXPECTED = [
    ToldEvent(delivery_id("wh_1", f"{case}{number}"), name, case, number + 1)
    for case in ("case_1", "case_2")
    for number, name in enumerate(NAMES)
]
ONCE = {one.delivery: 1 for one in EXPECTED}


def arrival(told: ToldEvent, more: str = "", secret: str = SECRET) -> Arrived:
    body = json.dumps({"id": told.delivery, "project_id": "proj_1", "more": more}).encode()
    return Arrived(dict(headers([secret], told.delivery, told.name, body, int(time.time()))), body, 0)


def verdict(*arrived: Arrived, noted: dict[str, int] | None = None) -> list[str]:
    receiver = Receiver()
    receiver.arrived += arrived
    return check(receiver, [SHOP], EXPECTED, ONCE if noted is None else noted)


def test_what_arrived_whole_and_in_order_is_right() -> None:
    all_of_it = [arrival(one) for one in EXPECTED]
    assert verdict(*all_of_it) == []
    assert verdict(*all_of_it, *all_of_it[::-1]) == []


def test_each_fault_is_found() -> None:
    first, second, *rest = [arrival(one) for one in EXPECTED]
    assert "never arrived" in verdict(first, *rest)[0]
    assert "is not in the log" in verdict(first, second, *rest, arrival(EXPECTED[0]._replace(delivery="whd_x")))[0]
    assert "with 2 bodies" in verdict(first, second, *rest, arrival(EXPECTED[0], "!"))[0]
    assert "No matching signature" in verdict(arrival(EXPECTED[0], secret=make_secret()), second, *rest)[0]
    assert "for case.created" in verdict(arrival(EXPECTED[0]._replace(name="case.split")), second, *rest)[0]
    assert "arrived before" in verdict(second, first, *rest)[0]
    assert verdict(second, first, *rest, noted={**ONCE, EXPECTED[0].delivery: 2}) == []
    assert "was noted None times" in verdict(first, second, *rest, noted={one.delivery: 1 for one in EXPECTED[1:]})[0]
