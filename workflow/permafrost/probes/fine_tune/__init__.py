"""Fine-tuning of a whole backbone with a head, compared with the same head on the frozen backbone."""
