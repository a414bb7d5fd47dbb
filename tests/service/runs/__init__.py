"""Tests of automation over HTTP."""
