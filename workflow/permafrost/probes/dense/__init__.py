"""What heads on frozen maps share: reading maps, order, training; nothing of what they predict."""
