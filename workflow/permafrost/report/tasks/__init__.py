"""Figures of each task, one module each; `core.tasks.TASKS` names them."""
