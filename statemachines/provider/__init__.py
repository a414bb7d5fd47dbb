"""The provider project that the operator sets up for a project of ours."""
