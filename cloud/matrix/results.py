# SPDX-License-Identifier: Apache-2.0
"""What was measured on the platforms: kept as JSON, shown as a table."""

from collections.abc import Iterable, Mapping
import csv
import dataclasses
import json
import pathlib
from typing import TextIO

from cloud.matrix import suites

# Whose version a column of the table shows.
PACKAGES = {'Ceph': 'ceph-common', 'QEMU': 'qemu-system-x86', 'libvirt': 'libvirt-daemon',
            'Open vSwitch': 'openvswitch-switch', 'Python': 'python3'}
NOT_RUN = '–'


@dataclasses.dataclass(frozen=True)
class Result:
    """What was measured on a platform.

    :param versions: by column
    :param commit: the project's
    """

    platform: str
    versions: Mapping[str, str]
    commit: str
    outcomes: Mapping[str, suites.Outcome]

    @property
    def ok(self) -> bool:
        """Whether each suite that was run succeeded."""
        return all(outcome.ok for outcome in self.outcomes.values())


def upstream(version: str) -> str:
    """Return the upstream part of a Debian version, without what repackaging appended."""
    without_epoch = version.partition(':')[2] or version
    return without_epoch.rpartition('-')[0].partition('+')[0] or without_epoch


def versions(listing: str) -> dict[str, str]:
    """Return the version for each column.

    :param listing: lines of package and version
    """
    by_package = dict(line.split() for line in listing.splitlines() if len(line.split()) == 2)
    return {column: upstream(by_package[package]) for column, package in PACKAGES.items()
            if package in by_package}


def save(result: Result, path: pathlib.Path) -> None:
    """Write a result; suites that were run at the same commit before keep theirs."""
    known = load(path)
    if known and known.commit == result.commit:
        result = dataclasses.replace(result, outcomes={**known.outcomes, **result.outcomes})
    path.write_text(json.dumps(dataclasses.asdict(result), indent=2) + '\n')


def load(path: pathlib.Path) -> Result | None:
    """Read a result, None if nothing was measured."""
    if not path.exists():
        return None
    data = json.loads(path.read_text())
    data['outcomes'] = {name: suites.Outcome(**outcome)
                        for name, outcome in data['outcomes'].items()}
    return Result(**data)


def rows(results: Iterable[Result]) -> list[list[str]]:
    """Return the table, with its header."""
    header = ['Platform', *PACKAGES, *suites.COMMANDS]
    return [header, *([result.platform,
                       *(result.versions.get(column, NOT_RUN) for column in PACKAGES),
                       *(str(result.outcomes.get(suite, NOT_RUN)) for suite in suites.COMMANDS)]
                      for result in results)]


def table(results: Iterable[Result]) -> str:
    """Return the table as lines of text."""
    lines = rows(results)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return '\n'.join('  '.join(f'{cell:{width}}' for cell, width in zip(line, widths, strict=True)
                               ).rstrip() for line in lines)


def write_csv(results: Iterable[Result], file: TextIO) -> None:
    """Write the table as the documentation includes it."""
    csv.writer(file, lineterminator='\n').writerows(rows(results))
