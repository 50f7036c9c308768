# SPDX-License-Identifier: Apache-2.0
"""Configuration options and policy rules for the sample generators."""

from typing import Any

from specreds_cinder import conf


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options by group, for the entry point `oslo.config.opts`."""
    return conf.list_opts()


def list_rules() -> list[Any]:
    """Return the policy rules, for the entry point `oslo.policy.policies`."""
    # This module imports Cinder, which the options do not need.
    from specreds_cinder.api import policies
    return list(policies.list_rules())
