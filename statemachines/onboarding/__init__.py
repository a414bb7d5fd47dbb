"""Onboarding: the plan, its proof by real execution, and the signal map."""
