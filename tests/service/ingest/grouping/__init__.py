"""Tests of the grouping that take data of their own."""
