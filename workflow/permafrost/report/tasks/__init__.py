"""The figures that a task asks for, one module each; `registry.TASKS` names them."""
