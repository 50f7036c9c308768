# SPDX-License-Identifier: Apache-2.0
"""The command ``specreds-status``."""

from collections.abc import Sequence

from specreds_nova.status import main as status


def main(argv: Sequence[str] | None = None) -> int:
    """Tell what is not right yet; gives the exit status."""
    return status.main(argv)
