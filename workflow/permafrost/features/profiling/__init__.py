"""What a backbone costs: its size, its arithmetic, its time, memory and energy on this machine."""
