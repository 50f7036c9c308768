# SPDX-License-Identifier: Apache-2.0
"""What collapse and merge ask of a backup that runs: the hook for a hypervisor."""

import abc
from collections.abc import Callable

from specreds_cinder.superposition import record as records

Progress = Callable[[int, int], None]


class Backup(abc.ABC):
    """A backup whose QEMU has the overlays open. Every step may be repeated after a crash."""

    @abc.abstractmethod
    def make_durable(self, record: records.Record) -> None:
        """Honour flushes from now on, and flush what was written before.

        When this returns, whatever the backup had been told was written survives a crash.

        :raises BackupError: it could not be done: the collapse must not go on
        """

    @abc.abstractmethod
    def converge(self, record: records.Record, rate: int, progress: Progress | None) -> None:
        """Copy the overlays down into the volumes while the guest runs, until both are equal.

        :param rate: bytes per second at most, 0 for no limit
        :param progress: called with the bytes copied and the bytes there are to copy
        :raises BackupError: the copy failed; the overlays are still what counts
        """

    @abc.abstractmethod
    def suspend(self) -> None:
        """Stop the guest, so that nothing is written until :meth:`proceed`."""

    @abc.abstractmethod
    def switch(self, record: records.Record) -> None:
        """Let every disk use the volume instead of the overlay. The guest is suspended.

        :raises BackupError: some disk still uses its overlay
        """

    @abc.abstractmethod
    def proceed(self) -> None:
        """Let the guest run again."""

    @abc.abstractmethod
    def release(self, record: records.Record) -> None:
        """Give up the overlays, which are about to be removed."""
