"""Usage, plan and payment."""
