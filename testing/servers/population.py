# SPDX-License-Identifier: Apache-2.0
"""The shares of a stated population that each recovery has, computed from the table.

The population: the default networks of three installers, with equal shares, times disks times
firmware times processors. The weights within an installer are a statement, not a measurement.
"""

from collections.abc import Iterator, Mapping
import itertools
import types

from testing.servers import table

# The default network of each installer.
INSTALLERS = {'DevStack': 'ovn', 'kolla-ansible': 'hybrid', 'OpenStack-Ansible': 'ovn'}
# In percent of the servers of an installer.
DISKS = {'volume': 50, 'rbd-root': 40, 'encrypted': 10}
FIRMWARE = {'bios': 50, 'uefi': 50}
PROCESSORS = {'plain': 90, 'pinned': 10}
# What could have no backup before: rows of the table whose recovery has changed since.
BEFORE = {'hybrid': table.EVACUATED, 'ovn': table.EVACUATED, 'uefi': table.EVACUATED,
          'encrypted': table.FAILED, 'multi-attach': table.FAILED, 'mirrored': table.FAILED,
          'rbd-root': table.NONE, 'pinned': table.EVACUATED}


def _servers() -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield installer, rows and share of each kind of server."""
    for kinds in itertools.product(INSTALLERS.items(), DISKS.items(), FIRMWARE.items(),
                                   PROCESSORS.items()):
        (installer, network), (disk, of_disk), (firmware, of_firmware), (cpu, of_cpu) = kinds
        rows = (network, disk, firmware, *(() if cpu == 'plain' else (cpu,)))
        yield installer, rows, of_disk * of_firmware * of_cpu / 1e6


def shares(others: Mapping[str, str] = types.MappingProxyType({})
           ) -> Mapping[str, Mapping[str, float]]:
    """Return the share of each recovery by installer.

    :param others: recoveries by row that replace those of the table, as :data:`BEFORE` does
    """
    recoveries = {row.key: row.recovery for row in table.ROWS} | dict(others)
    result: dict[str, dict[str, float]] = {
        installer: dict.fromkeys(table.RECOVERIES, 0.0) for installer in INSTALLERS}
    for installer, rows, share in _servers():
        worst = max((recoveries[row] for row in rows), key=table.RECOVERIES.index)
        result[installer][worst] += share
    return result
