"""The rules of every scenario: each is a function over a trial, and yields its breaches."""
