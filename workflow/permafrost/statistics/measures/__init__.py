"""Tables of feature metrics, which need no probe."""
