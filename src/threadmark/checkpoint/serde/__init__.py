"""Serializers: how values become ``(tag, bytes)`` and come back exactly, or not at all (spec 12)."""
