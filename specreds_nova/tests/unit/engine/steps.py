# SPDX-License-Identifier: Apache-2.0
"""Steps of recoveries that tests record."""

from collections.abc import Mapping
from typing import Any

from specreds_nova.engine import model


def begin(store: Any, recovery: model.Recovery, name: str, now: float) -> int:
    """Record the begin of a step, and return its attempt."""
    before = [step.attempt for step in recovery.steps if step.name == name]
    [step] = store.change(recovery, begun=[model.Step(
        name, 1 + max(before, default=0), recovery.engine or '', now)]).steps
    attempt: int = step.attempt
    return attempt


def end(store: Any, recovery: model.Recovery, name: str, attempt: int, detail: Mapping[str, Any],
        now: float) -> None:
    """Record the end of a step."""
    store.change(recovery, ended=[model.Step(
        name, attempt, recovery.engine or '', now, now, detail)])
