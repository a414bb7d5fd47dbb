"""The processes of the service, and what runs in each."""

import sys

# The logger loads rich, where it is installed, for coloured tracebacks that no process of the service prints; that is a
# twentieth of each start. It does without what it finds missing.
if not {"structlog", "rich"} & sys.modules.keys():
    sys.modules["rich"] = None  # type: ignore[assignment] # how the interpreter marks what cannot be imported
    try:
        import structlog  # noqa: F401 - loaded here so that it stays as it was loaded
    finally:
        del sys.modules["rich"]
