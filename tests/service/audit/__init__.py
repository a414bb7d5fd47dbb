"""Tests of the log as outsiders check it."""
