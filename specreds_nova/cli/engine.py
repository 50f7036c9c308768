# SPDX-License-Identifier: Apache-2.0
"""The command ``specreds-engine``."""

from specreds_nova.engine import main as engine


def main() -> int:
    """Run an engine; gives the exit status."""
    return engine.main()
