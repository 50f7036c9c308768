# SPDX-License-Identifier: Apache-2.0
"""What the services of a cloud have warned of during a test, for the report of its failure."""

from collections.abc import Mapping
import pathlib
import re

# The last ones of each service.
_LAST = 12
_WIDTH = 280
# Services of OpenStack, and Open vSwitch.
_WARNING = re.compile(r' (WARNING|ERROR|CRITICAL) |\|(WARN|ERR|EMER)\|')
_ERROR = re.compile(r' (ERROR|CRITICAL) |\|(ERR|EMER)\|')
# What services warn of in any run.
_USUAL = re.compile(r'[Dd]eprecat|privsep log|No controller found|oslo_cache|password_hashing|'
                    r'not an IPv6 packet|ethtool command')


class Warnings:
    """The warnings that services write into their logs from now on.

    :param logs: path of the log by service
    """

    def __init__(self, logs: Mapping[str, pathlib.Path]) -> None:
        self._logs = logs
        self._begun = {name: _size(path) for name, path in logs.items()}

    def text(self) -> str:
        """Return the last warnings of each service, and then its last errors.

        Where only the end of the text is kept, the errors are kept.
        """
        lines = [f'{name}: {line}' for name in sorted(self._logs) for line in self._new(name)]
        return '\n'.join(sorted(lines, key=lambda line: bool(_ERROR.search(line))))

    def _new(self, name: str) -> list[str]:
        try:
            with self._logs[name].open('rb') as log:
                # A log that was begun anew is read from its start.
                begun = self._begun[name]
                log.seek(begun if begun <= _size(self._logs[name]) else 0)
                lines = log.read().decode(errors='replace').splitlines()
        except OSError:
            return []
        noted = [line[:_WIDTH] for line in lines
                 if _WARNING.search(line) and not _USUAL.search(line)]
        return sorted(noted, key=lambda line: bool(_ERROR.search(line)))[-_LAST:]


def _size(path: pathlib.Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
