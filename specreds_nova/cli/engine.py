# SPDX-License-Identifier: Apache-2.0
"""The command ``specreds-engine``."""

from collections.abc import Sequence

from specreds_nova.engine import main as engine


def main(argv: Sequence[str] | None = None) -> int:
    """Run an engine; return the exit status."""
    return engine.main(argv)
