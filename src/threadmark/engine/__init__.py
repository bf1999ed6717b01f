"""The engine: plans, supersteps and what reaches the saver (see ARCHITECTURE.md)."""
