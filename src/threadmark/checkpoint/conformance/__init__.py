"""A suite that proves a saver: what graphs rely on, what is optional, and what goes wrong under load and at death.

``validate`` runs it and reports. ``threadmark.checkpoint.conformance.suite`` has the same checks as pytest classes.
``python -m threadmark.checkpoint.conformance package.module:factory`` prints the report.
"""

from __future__ import annotations

from threadmark.checkpoint.conformance.factory import Registered, checkpointer_test
from threadmark.checkpoint.conformance.report import Report, Result
from threadmark.checkpoint.conformance.runner import validate

__all__ = ["Registered", "Report", "Result", "checkpointer_test", "validate"]
