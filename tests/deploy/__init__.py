"""The files of deploy/, each on the real program that reads it."""
