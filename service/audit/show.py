"""Answers of the audit area."""

from __future__ import annotations

import base64

from schemas.audit.tree import ConsistencyProof, InclusionProof
from service.audit.reads import ProvenGrowth, ProvenLeaf


def inclusion(position: int, size: int, proven: ProvenLeaf) -> InclusionProof:
    """Show a proof of inclusion."""
    return InclusionProof(
        position=position,
        leaf_index=position - 1,
        size=size,
        leaf_hash=_text(proven.leaf),
        hashes=[_text(one) for one in proven.proof],
        root=_text(proven.root),
    )


def consistency(old: int, new: int, proven: ProvenGrowth) -> ConsistencyProof:
    """Show a proof of growth."""
    return ConsistencyProof(
        old=old,
        new=new,
        from_root=_text(proven.old_root),
        to_root=_text(proven.new_root),
        hashes=[_text(one) for one in proven.proof],
    )


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
