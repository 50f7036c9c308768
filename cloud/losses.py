# SPDX-License-Identifier: Apache-2.0
"""Services of a cloud that have ended by themselves: what a failure on that cloud names first."""

from collections.abc import Collection, Iterator, Mapping
import contextlib
import dataclasses
import pathlib
import re

from cloud import commands
from cloud import processes
from cloud.openstack import probes

# A line of supervisord's log, of a process that nobody has told it to stop.
_EXITED = re.compile(r'^\S+ (\S+?)(?:,\d+)? \w+ exited: (\S+) \((.*); not expected\)$')


@dataclasses.dataclass(frozen=True)
class Logs:
    """The logs of one supervisord and of its services.

    :param directory: where they are
    :param killed: the services that a test has sent a signal
    """

    directory: pathlib.Path
    killed: Collection[str] = ()

    @property
    def own(self) -> pathlib.Path:
        """Return supervisord's own log."""
        return self.directory / processes.OWN_LOG

    def service(self, name: str) -> str:
        """Return the path of a service's log, with the last error that it has."""
        log = self.directory / f'{name}.out'
        return ': '.join(filter(None, (str(log), probes.last_error(log))))


class Losses:
    """The services that end by themselves from its creation on.

    :param logs: by the prefix of the services' names
    """

    def __init__(self, logs: Mapping[str, Logs]) -> None:
        self._logs = logs
        self._begun = {prefix: _size(log.own) for prefix, log in logs.items()}

    def found(self) -> list[str]:
        """Return a sentence for each end of a service, also for one that was started again."""
        return [f'{prefix}{name} ended by itself at {time} ({how}): see {log.service(name)}'
                for prefix, log in self._logs.items()
                for time, name, how in self._exits(prefix, log) if name not in log.killed]

    @contextlib.contextmanager
    def named_first(self) -> Iterator[None]:
        """Name the services that have ended in the error of a step that fails.

        :raises CloudError: the step failed, and a service has ended
        """
        try:
            yield
        except Exception as exc:
            if sentences := self.found():
                raise commands.CloudError('\n'.join([*sentences, f'then: {exc}'])) from exc
            raise

    def _exits(self, prefix: str, log: Logs) -> list[tuple[str, ...]]:
        try:
            with log.own.open('rb') as file:
                begun = self._begun[prefix]
                # A log that was begun anew is read from its start.
                file.seek(begun if begun <= _size(log.own) else 0)
                lines = file.read().decode(errors='replace').splitlines()
        except OSError:
            return []
        return [match.groups() for match in map(_EXITED.match, lines) if match]


def _size(path: pathlib.Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
