"""The automation of a project: playbooks, the contract, and its past."""
