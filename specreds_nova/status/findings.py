# SPDX-License-Identifier: Apache-2.0
"""What a check has found, and what oslo.upgradecheck makes of it."""

from collections.abc import Iterable
import dataclasses

from oslo_upgradecheck import upgradecheck

Code = upgradecheck.Code


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth a look.

    :ivar text: what it is, where, and what to do
    """

    code: Code
    text: str


def warning(text: str) -> Finding:
    """Give something that may be meant, but rarely is."""
    return Finding(Code.WARNING, text)


def failure(text: str) -> Finding:
    """Give something that keeps this release from working."""
    return Finding(Code.FAILURE, text)


def result(found: Iterable[Finding], fine: str) -> upgradecheck.Result:
    """Put findings together: the worst comes first, and counts.

    :param fine: what is said if there is none
    """
    ordered = sorted(found, key=lambda finding: -finding.code)
    if not ordered:
        return upgradecheck.Result(Code.SUCCESS, fine)
    return upgradecheck.Result(ordered[0].code, '; '.join(each.text for each in ordered))
