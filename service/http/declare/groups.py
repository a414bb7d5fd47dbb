"""The documented groups of operations, with what the operations of each have in common."""

from __future__ import annotations

from service.http.declare.endpoint import Group

ACCOUNT_DELETION = Group(name="deletion")
ALERTS = Group(name="alerts")
ANALYTICS = Group(name="analytics")
AUTH = Group(name="auth")
AUTOMATION = Group(name="automation", closed_errors=True, flows=frozenset({"automation"}))
CASES = Group(name="cases")
CREDENTIALS = Group(name="credentials", closed_errors=True, flows=frozenset({"automation"}))
DISCOVERY = Group(name="discovery")
EVENTS = Group(name="events")
INGEST = Group(name="ingest", rate="ingest")
INSTALL = Group(name="install", flows=frozenset({"install"}))
LOG = Group(name="log", rate="log")
MCP = Group(name="mcp")
ONBOARDING = Group(name="onboarding", closed_errors=True, flows=frozenset({"onboarding"}))
OPERATIONS = Group(name="operations")
PROJECT_DELETION = Group(name="deletion", closed_errors=True)
PROJECTS = Group(name="projects")
PROVIDER = Group(name="provider", flows=frozenset({"provider"}))
PUBLIC_QUERIES = Group(name="public_queries")
SIGNAL_MAP = Group(name="signal_map")
TEST_CLOCK = Group(name="test_clock")
USAGE_BILLING = Group(name="usage_billing")
WEBHOOKS = Group(name="webhooks")
