"""What the modules beside this one declare: every task, and every reaction to an event."""

import service.jobs
from service.eventstore.log.reactor import Reaction
from service.registry import modules
from service.services import Task


def declared() -> tuple[list[Task], dict[str, Reaction]]:
    """Collect tasks and reactions from service/jobs. Two tasks of one name are a bug that stops the start."""
    tasks: dict[str, Task] = {}
    reactions: dict[str, Reaction] = {}
    for module in modules(service.jobs):
        for task in getattr(module, "TASKS", ()):
            assert task.name not in tasks, f"two tasks are named {task.name}"
            tasks[task.name] = task
        for topic, reaction in getattr(module, "REACTIONS", {}).items():
            assert topic not in reactions, f"two reactions to {topic}"
            reactions[topic] = reaction
    return list(tasks.values()), reactions
