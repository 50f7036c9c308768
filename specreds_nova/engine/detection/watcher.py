# SPDX-License-Identifier: Apache-2.0
"""The receiver of what the monitor of an engine notices."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

Why = tuple[Mapping[str, Any], ...]
# A method of a watcher, and its arguments.
News = tuple[str, tuple[Any, ...]]


class Watcher(Protocol):
    """Receiver of changes, called by the thread that ticks. It may call the monitor."""

    def appeared(self, host: str, kernel: str) -> None:
        """Handle a host that appeared for the first time since the engine's start.

        :param kernel: the boot that runs; empty if the host does not report it
        """

    def doubted(self, host: str) -> None:
        """Handle a late beat, after which the host may be suspected soon. Must return at once."""

    def suspected(self, host: str, why: Why) -> None:
        """Handle a new suspicion, before the gates are checked."""

    def cleared(self, host: str) -> None:
        """Handle the end of a suspicion."""

    def left(self, host: str, goodbye: str | None, at: float | None) -> None:
        """Handle a goodbye, with its kind and time; None if the host is heard again."""

    def crashed(self, host: str, server: str, why: Why) -> None:
        """Handle the crash of one server's domain on a host that is well.

        :param server: its id; ``model.ANY_SERVER`` for each that the host runs no more
        """

    def booted(self, host: str, kernel: str) -> None:
        """Handle another boot of a host, after the crashes of the servers that it has ended."""


def tell(watcher: Watcher, news: Iterable[News]) -> None:
    """Call a watcher, whatever it raises: an error of one host must not affect the others."""
    for name, arguments in news:
        try:
            getattr(watcher, name)(*arguments)
        except Exception:
            LOG.exception('%s: %s', name, arguments)
