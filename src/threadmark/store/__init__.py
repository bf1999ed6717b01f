"""Long-term memory across threads (spec 15)."""
