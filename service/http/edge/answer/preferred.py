"""Content negotiation by Accept, for answers with a second form (RFC 9110, 12.5.1)."""

from __future__ import annotations

from service.http.edge.answer.reply import JSON


def prefers(accept: str | None, media: str, to: str = JSON) -> bool:
    """Whether an Accept header prefers a media type to another: names it, and the other with no greater weight."""
    weights = dict(_range(part) for part in (accept or "").lower().split(","))
    weight = weights.get(media, 0.0)
    return weight > 0 and weight >= weights.get(to, 0.0)


def _range(part: str) -> tuple[str, float]:
    media, *parameters = (piece.strip() for piece in part.split(";"))
    weight = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                weight = 0.0
    return media, weight
