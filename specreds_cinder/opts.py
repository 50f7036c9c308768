# SPDX-License-Identifier: Apache-2.0
"""The configuration options and policy rules that the sample generators write down."""

from typing import Any

from specreds_cinder import conf


def list_opts() -> list[tuple[str, list[Any]]]:
    """Options by group, for the entry point `oslo.config.opts`."""
    return conf.list_opts()


def list_rules() -> list[Any]:
    """Policy rules, for the entry point `oslo.policy.policies`."""
    # Imports Cinder, which the options need not.
    from specreds_cinder import policies
    return list(policies.list_rules())
