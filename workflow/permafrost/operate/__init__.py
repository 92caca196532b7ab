"""What people do with a plan and a run: see what there is, estimate, follow, repair."""
