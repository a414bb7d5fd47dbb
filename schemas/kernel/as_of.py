"""Parameter of reads of one object that is also shown as it was."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.kernel.patterns import form

AS_OF = form("[rpt]:(0|[1-9][0-9]{0,14})", "such as r:12 (a revision), p:345 (a position in the log) or t:1700000000")


class AsOfQuery(msgspec.Struct, frozen=True):
    """When: a revision of the object's stream, a position in the log, or a second since the epoch. Absent: now."""

    as_of: (
        Annotated[
            str,
            Meta(
                pattern=AS_OF,
                description=(
                    "Show the object as it was, to owners: at a revision of its stream (r:12), at a position in the "
                    "log (p:345), or at the end of a second since the epoch (t:1700000000)."
                ),
            ),
        ]
        | None
    ) = None
