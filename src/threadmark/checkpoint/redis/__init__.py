"""Threads in Redis, Valkey or a Redis Cluster."""

from __future__ import annotations

from threadmark.checkpoint.redis.saver import RedisSaver

__all__ = ["RedisSaver"]
