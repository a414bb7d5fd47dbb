"""Project credentials of CI and runners, on the wire."""
