"""Benchmarks, storms and generators; see the Makefile."""
