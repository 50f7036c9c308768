# SPDX-License-Identifier: Apache-2.0
"""Findings of checks, and their conversion to results of oslo.upgradecheck."""

from collections.abc import Iterable
import dataclasses

from oslo_upgradecheck import upgradecheck

Code = upgradecheck.Code


@dataclasses.dataclass(frozen=True)
class Finding:
    """An error or a warning about the configuration.

    :ivar text: the fault, its place, and what to do
    """

    code: Code
    text: str


def warning(text: str) -> Finding:
    """Return a finding that is rarely intended."""
    return Finding(Code.WARNING, text)


def failure(text: str) -> Finding:
    """Return a finding that keeps this release from working."""
    return Finding(Code.FAILURE, text)


def result(findings: Iterable[Finding], fine: str) -> upgradecheck.Result:
    """Combine findings into a result with the worst code, the worst finding first.

    :param fine: the text of the result if there is no finding
    """
    ordered = sorted(findings, key=lambda finding: -finding.code)
    if not ordered:
        return upgradecheck.Result(Code.SUCCESS, fine)
    return upgradecheck.Result(ordered[0].code, '; '.join(each.text for each in ordered))
