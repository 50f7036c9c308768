# SPDX-License-Identifier: Apache-2.0
"""The configuration options and policy rules that the sample generators write down.

The storage side without OpenStack has none: it takes its settings as arguments.
"""

from typing import Any


def list_opts() -> list[tuple[str, list[Any]]]:
    """Options by group, for the entry point `oslo.config.opts`."""
    return []


def list_rules() -> list[Any]:
    """Policy rules, for the entry point `oslo.policy.policies`."""
    return []
