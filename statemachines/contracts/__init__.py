"""Playbooks, and the automation contract that an owner enables."""
