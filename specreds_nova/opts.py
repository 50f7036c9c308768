# SPDX-License-Identifier: Apache-2.0
"""The configuration options for the sample generator."""

from typing import Any

from specreds_nova import conf
from specreds_nova.sentinel import conf as sentinel_conf


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options by group, for the entry point ``oslo.config.opts``."""
    return [(conf.GROUP.name, [*conf.OPTIONS, *sentinel_conf.OPTIONS])]
