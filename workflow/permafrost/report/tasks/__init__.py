"""The figures that a task asks for, one module each; `core.tasks.TASKS` names them."""
