"""The row of an identity shows its person."""

from __future__ import annotations

from projections.accounts import (
    AUDITORS,
    IDENTITIES,
    INVITATIONS,
    KEPT,
    KEYS,
    MEMBERSHIPS,
    PEOPLE,
    SESSIONS,
    SIGN_INS,
    InvitationRow,
    invitation_lasts,
    session_lasts,
)
from statemachines.accounts import invitation, key, membership, person, session, sign_in
from statemachines.accounts.identity import IdentityBound
from statemachines.accounts.session import LIFETIME
from statemachines.kernel.machine import Event
from tests.projections.rows import check_ended, check_middle, check_row, fold

IDENTITY_EVENTS: list[Event] = [
    IdentityBound("usr_1", "https://id.example", 5),
    IdentityBound("usr_2", "https://id.example", 9),
]


def test_the_row_of_an_identity_shows_its_stream():
    check_row(
        IDENTITIES, IDENTITY_EVENTS, {"revision": 2, "user_id": "usr_2", "issuer": "https://id.example", "bound_at": 9}
    )


# The row of an invitation shows its latest offer and what became of it, until an hour after its time.

MADE = invitation.InvitationMade("a@example.com", "owner", "usr_1", 2, 5, 605)
OFFER = {"email": "a@example.com", "role": "owner", "invited_by": "usr_1", "standing": 2, "invited_at": 5}


def test_the_row_of_an_invitation_shows_its_stream():
    accepted: list[Event] = [MADE, invitation.InvitationAccepted("usr_2", 6)]
    known = OFFER | {"expires_at": 605}
    check_row(INVITATIONS, accepted, known | {"revision": 2, "status": "accepted", "accepted_by": "usr_2"})
    revoked: list[Event] = [MADE, invitation.InvitationRevoked(6)]
    check_row(INVITATIONS, revoked, known | {"revision": 2, "status": "revoked", "accepted_by": None})
    again: list[Event] = [*accepted, MADE]
    check_row(INVITATIONS, again, known | {"revision": 3, "status": "open", "accepted_by": None})


def test_a_row_lasts_an_hour_longer_than_its_invitation():
    row = InvitationRow(project_id="p", id="inv_1", revision=1, status="open", expires_at=605, **OFFER)
    assert invitation_lasts(row, 605 + KEPT)
    assert not invitation_lasts(row, 606 + KEPT)


# The row of a key shows the stream, and of the secret only its hash.

KEY_EVENTS: list[Event] = [key.KeyMinted("usr_1", "0" * 64, "service_sk_abcde", "dev_1", 5), key.KeyRevoked(6)]


def test_the_row_of_a_key_shows_its_stream():
    check_row(
        KEYS,
        KEY_EVENTS,
        {
            "revision": 2,
            "key_hash": "0" * 64,
            "key_prefix": "service_sk_abcde",
            "sign_in_id": "dev_1",
            "created_at": 5,
            "revoked_at": 6,
        },
    )


def test_a_history_of_a_key_that_begins_in_the_middle_folds():
    check_middle(KEYS, KEY_EVENTS)


# The row of a membership shows the role, and is gone with the membership.

MEMBERSHIP_EVENTS: list[Event] = [membership.OwnerAdded("usr_1", 5), membership.MemberAdded("usr_1", 6)]


def test_the_row_of_a_membership_shows_its_stream():
    check_row(
        MEMBERSHIPS,
        MEMBERSHIP_EVENTS,
        {"revision": 2, "user_id": "usr_1", "role": "member", "created_at": 5},
    )


def test_a_removed_member_has_no_row_and_may_begin_again():
    check_ended(MEMBERSHIPS, [*MEMBERSHIP_EVENTS, membership.MembershipRemoved(8)])


def test_an_auditor_has_a_row_beside_the_members_and_never_among_them():
    audits = [*MEMBERSHIP_EVENTS, membership.AuditorAdded("usr_1", 7)]
    check_row(AUDITORS, audits, {"revision": 3, "user_id": "usr_1", "created_at": 7})
    check_ended(MEMBERSHIPS, audits)
    for role, joined in (("owner", membership.OwnerAdded), ("member", membership.MemberAdded)):
        after = [*audits, joined("usr_1", 8)]
        assert fold(AUDITORS, after) is None
        check_row(MEMBERSHIPS, after, {"revision": 4, "user_id": "usr_1", "role": role, "created_at": 8})
        again = [*after, membership.AuditorAdded("usr_1", 9)]
        check_row(AUDITORS, again, {"revision": 5, "user_id": "usr_1", "created_at": 9})
    assert fold(AUDITORS, [*audits, membership.MembershipRemoved(8)]) is None


# The row of a person shows the stream, and is gone with the account.

PERSON_EVENTS: list[Event] = [
    person.PersonRegistered("email", "a@b.c", True, "A", False, 5),
    person.PersonProfileChanged("a@b.d", False, None),
    person.PersonFenced(7),
]


def test_the_row_of_a_person_shows_its_stream():
    check_row(
        PEOPLE,
        PERSON_EVENTS,
        {
            "revision": 3,
            "provider": "email",
            "email": "a@b.d",
            "email_verified": False,
            "name": None,
            "synthetic": False,
            "status": "fenced",
            "created_at": 5,
            "fenced_at": 7,
        },
    )


def test_a_history_of_a_person_that_begins_in_the_middle_folds():
    check_middle(PEOPLE, PERSON_EVENTS)


def test_a_deleted_person_has_no_row_and_may_begin_again():
    check_ended(PEOPLE, [*PERSON_EVENTS, person.PersonDeleted(8)])


# The row of a session shows the stream, and of its secrets only the hashes.

SESSION_EVENTS: list[Event] = [
    session.SessionOffered("usr_1", "0" * 64, 5, 125),
    session.SessionOpened("usr_1", "1" * 64, "link", 6, 6 + LIFETIME),
    session.SessionAuthenticated("2" * 64, "oidc", 7),
    session.SessionEnded("revoked", 8),
]


def test_the_row_of_a_session_shows_its_stream():
    check_row(
        SESSIONS,
        SESSION_EVENTS,
        {
            "revision": 4,
            "status": "ended",
            "link_hash": "",
            "secret_hash": "2" * 64,
            "by": "oidc",
            "created_at": 6,
            "authenticated_at": 7,
            "expires_at": 6 + LIFETIME,
            "ended_at": 8,
        },
    )


def test_a_history_of_a_session_that_begins_in_the_middle_folds():
    check_middle(
        SESSIONS, [SESSION_EVENTS[0], *SESSION_EVENTS[2:]]
    )  # The second is also a beginning: of a session without a link.


def test_a_link_and_a_session_end_by_time():
    link, opened = fold(SESSIONS, SESSION_EVENTS[:1]), fold(SESSIONS, SESSION_EVENTS[:2])
    assert (link.status, link.link_hash, link.expires_at) == ("offered", "0" * 64, 125)
    assert not link.open(5)
    assert opened.open(5 + LIFETIME)
    assert not opened.open(6 + LIFETIME)
    assert session_lasts(link, 125 + KEPT)
    assert not session_lasts(link, 126 + KEPT)


# The row of a sign-in shows the stream, and of the device code only its hash.

SIGN_IN_EVENTS: list[Event] = [
    sign_in.SignInStarted("0" * 64, "laptop", 5, 905),
    sign_in.SignInAuthorized("usr_1", True, 6),
    sign_in.SignInRedeemed("key_1", 7),
]


def test_the_row_of_a_sign_in_shows_its_stream():
    check_row(
        SIGN_INS,
        SIGN_IN_EVENTS,
        {
            "revision": 3,
            "device_code_hash": "0" * 64,
            "client_name": "laptop",
            "status": "redeemed",
            "started_at": 5,
            "expires_at": 905,
            "user_id": "usr_1",
            "is_new": True,
        },
    )


def test_a_history_of_a_sign_in_that_begins_in_the_middle_folds():
    check_middle(SIGN_INS, SIGN_IN_EVENTS)


def test_a_later_sign_in_takes_the_row_over():
    row = fold(SIGN_INS, [*SIGN_IN_EVENTS, sign_in.SignInStarted("1" * 64, None, 2_000, 2_900)])
    assert (row.status, row.user_id, row.is_new, row.device_code_hash) == ("pending", None, False, "1" * 64)
    assert fold(SIGN_INS, [SIGN_IN_EVENTS[0], sign_in.SignInDenied(6)]).status == "denied"
