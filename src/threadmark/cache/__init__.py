"""Results of nodes and tasks, kept for the next time (spec 15)."""
