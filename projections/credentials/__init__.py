"""Project credentials of CI and runners, as rows."""
