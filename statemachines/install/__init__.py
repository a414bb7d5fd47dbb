"""The install flow: from a drafted plan to a verified install, for projects without onboarding."""
