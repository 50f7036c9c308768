# SPDX-License-Identifier: Apache-2.0
"""What was measured on the platforms: kept as JSON, shown as a table."""

from collections.abc import Iterable, Mapping
import csv
import dataclasses
import json
import pathlib
from typing import Any

from cloud.matrix import suites

# Whose version a column of the table shows.
PACKAGES = {'Ceph': 'ceph-common', 'QEMU': 'qemu-system-x86', 'libvirt': 'libvirt-daemon',
            'Open vSwitch': 'openvswitch-switch', 'Python': 'python3'}
NOT_RUN = '–'


# Characters of a commit's name in the table.
_SHORT = 7


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One run of a suite.

    :param commit: the project's
    :param date: of the end of the run, in UTC
    """

    outcome: suites.Outcome
    commit: str
    date: str

    def __str__(self) -> str:
        return f'{self.outcome} ({self.commit[:_SHORT]}, {self.date})'


@dataclasses.dataclass(frozen=True)
class Result:
    """What was measured on a platform.

    :param versions: by column, at the last run
    :param measurements: the last one of each suite, each at a commit of its own
    """

    platform: str
    versions: Mapping[str, str]
    measurements: Mapping[str, Measurement]


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


def save(results: Iterable[Result], path: pathlib.Path) -> list[Result]:
    """Add results to a file, and return all results of the file.

    A measurement of the file stays unless a later one of its platform and suite is added; of two
    with the same date, the added one replaces the other.
    """
    known = {result.platform: result for result in load(path)}
    for result in results:
        former = known.get(result.platform)
        known[result.platform] = _later(former, result) if former else result
    together = [known[name] for name in sorted(known)]
    path.write_text(json.dumps([dataclasses.asdict(result) for result in together], indent=2)
                    + '\n')
    return together


def _later(former: Result, added: Result) -> Result:
    measurements = dict(former.measurements)
    newest = max(measurement.date for measurement in measurements.values())
    for suite, measurement in added.measurements.items():
        if suite not in measurements or measurement.date >= measurements[suite].date:
            measurements[suite] = measurement
    newer = any(measurement.date >= newest for measurement in added.measurements.values())
    return Result(added.platform, added.versions if newer else former.versions, measurements)


def load(path: pathlib.Path) -> list[Result]:
    """Read results; there are none if the file does not exist."""
    return [_load(data) for data in json.loads(path.read_text())] if path.exists() else []


def _load(data: Mapping[str, Any]) -> Result:
    measurements = {
        name: Measurement(suites.Outcome(**saved['outcome']), saved['commit'], saved['date'])
        for name, saved in data['measurements'].items()}
    return Result(data['platform'], data['versions'], measurements)


def rows(results: Iterable[Result]) -> list[list[str]]:
    """Return the table, with its header."""
    header = ['Platform', *PACKAGES, *suites.COMMANDS]
    return [header, *([result.platform,
                       *(result.versions.get(column, NOT_RUN) for column in PACKAGES),
                       *(str(result.measurements.get(suite, NOT_RUN))
                         for suite in suites.COMMANDS)]
                      for result in results)]


def table(results: Iterable[Result]) -> str:
    """Return the table as lines of text."""
    lines = rows(results)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return '\n'.join('  '.join(f'{cell:{width}}' for cell, width in zip(line, widths, strict=True)
                               ).rstrip() for line in lines)


def record(results: Iterable[Result], path: pathlib.Path) -> None:
    """Add results to a file, and write all as a table beside it (CSV)."""
    together = save(results, path)
    with path.with_suffix('.csv').open('w') as file:
        csv.writer(file, lineterminator='\n').writerows(rows(together))
