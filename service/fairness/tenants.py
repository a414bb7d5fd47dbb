"""The names of tenants in turns: a tenant's own, or that of a shared place with its member (G-204).

All callers without a credential are one against tenants, however many addresses they have. Inside that place they take
turns by address. So strangers have one share, and no stranger stops another.
"""

from __future__ import annotations

STRANGERS = "strangers"
"""The place of callers without a credential, and of credentials before their first look-up."""
SIGN_IN = "sign-in"
PUBLIC_QUERIES = "public-queries"
"""The place of requests for unknown publications. A known one has its own."""
PAYMENTS = "payments"
NOBODY = ""
"""The tenant of requests outside of all turns."""

_BETWEEN = " "
"""It is in no id, no name of a place and no address."""


def sharing(place: str, member: str) -> str:
    """Name a member of a shared place. NOBODY shares none."""
    return place and f"{place}{_BETWEEN}{member}"


def place_of(tenant: str) -> str:
    """The place of a tenant against the others: its own, or the shared one."""
    return tenant.partition(_BETWEEN)[0]


def member_of(tenant: str) -> str:
    """The member inside a shared place. Empty for a tenant with a place of its own."""
    return tenant.partition(_BETWEEN)[2]
