"""The fenced event store: command loop, fence lane, sequencer, rebuild and verify."""
