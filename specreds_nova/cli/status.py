# SPDX-License-Identifier: Apache-2.0
"""The command ``specreds-status``."""

from collections.abc import Sequence

from specreds_nova.status import main as status


def main(argv: Sequence[str] | None = None) -> int:
    """Report what is not in order; return the exit status."""
    return status.main(argv)
