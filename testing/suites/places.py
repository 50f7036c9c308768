# SPDX-License-Identifier: Apache-2.0
"""The Cephs and clouds of the tests."""

from collections.abc import Callable, Iterator, Sequence
import concurrent.futures
import contextlib
import os
import pathlib
import subprocess
import sys

from cloud import commands

# First of the ports of the tests' Cephs, and number of ports of each. Those of clouds follow.
_PORT = 'SPECREDS_TEST_PORT'
_DEFAULT_PORT = 17500
_CEPH_PORTS = 200
_CEPHS = 4
# Nova's disk_cachemodes on the hosts of the clouds.
_CACHEMODES = 'SPECREDS_TEST_CACHEMODES'


class Places:
    """Makes what suites need, and removes it afterwards.

    :param top: directory of the checkout
    :param data: directory for clusters and logs
    :param failed: returns whether tests have failed; then the logs are kept
    :param say: shows a line
    """

    def __init__(self, top: pathlib.Path, data: pathlib.Path, failed: Callable[[], bool],
                 say: Callable[[str], None]) -> None:
        self._top = top
        self._data = data
        self._logs = data / 'test-logs'
        self._failed = failed
        self._say = say
        self._stopped = ''
        self._port = int(os.environ.get(_PORT) or _DEFAULT_PORT)

    def stop(self, why: str) -> None:
        """Make nothing more."""
        self._stopped = why

    @property
    def cloud_port(self) -> int:
        """Return the first port of the tests' clouds."""
        return self._port + _CEPHS * _CEPH_PORTS

    @contextlib.contextmanager
    def cephs(self, number: int) -> Iterator[list[pathlib.Path]]:
        """Make new Cephs, and remove them at the end.

        :returns: their data directories
        :raises CloudError: one did not come up, or did not end
        """
        directories = [self._data / ('test' if index == 0 else f'test-{index + 1}')
                       for index in range(number)]
        ports = [self._port + index * _CEPH_PORTS for index in range(number)]
        with self._ended('ceph', directories), concurrent.futures.ThreadPoolExecutor() as pool:
            self._say(f'{number} Ceph' if number == 1 else f'{number} Cephs')
            list(pool.map(self._make_ceph, directories, ports))
            yield directories

    @contextlib.contextmanager
    def volumes(self, ceph: pathlib.Path) -> Iterator[pathlib.Path]:
        """Make a cloud without compute hosts, with a back end on a second Ceph.

        :raises CloudError: it did not come up, or did not end
        """
        directory = self._data / 'test-cloud'
        with self._ended('cloud', [directory]):
            self._say('a cloud of volumes')
            self._make('cloud', directory, '--hosts', '0', '--port', str(self.cloud_port),
                       '--clustered', '--extra-backend',
                       f'rbd3=volumes,cinder,{ceph}/ceph.conf')
            yield directory

    @contextlib.contextmanager
    def hosts(self, options: Sequence[str]) -> Iterator[pathlib.Path]:
        """Make a cloud with three compute hosts, and no engine.

        :param options: of ``./run cloud up``
        :raises CloudError: it did not come up, or did not end
        """
        directory = self._data / 'test-hosts'
        modes = os.environ.get(_CACHEMODES)
        with self._ended('cloud', [directory]):
            self._say(' '.join(['a cloud with compute hosts', *options]))
            self._make('cloud', directory, '--hosts', '3', '--backends', '2', '--engines', '0',
                       *options, *(['--cachemodes', modes] if modes else []),
                       '--port', str(self.cloud_port))
            yield directory

    def engines(self, cloud: pathlib.Path, number: int) -> None:
        """Have a cloud run a number of engines.

        :raises CloudError: they did not come up
        """
        self._command('cloud', 'up', cloud, '--engines', str(number))

    def _make_ceph(self, directory: pathlib.Path, port: int) -> None:
        self._make('ceph', directory, '--port', str(port))

    def _make(self, area: str, directory: pathlib.Path, *options: str) -> None:
        if self._stopped:
            raise commands.CloudError(f'stopped by {self._stopped}')
        self._command(area, 'wipe', directory)
        self._command(area, 'up', directory, *options)

    @contextlib.contextmanager
    def _ended(self, area: str, directories: Sequence[pathlib.Path]) -> Iterator[None]:
        """End clusters, whatever happens. After a failure their logs are kept.

        :raises CloudError: one did not come up, or did not end
        """
        action = 'down'
        errors = []
        try:
            yield
            action = 'down' if self._failed() else 'wipe'
        except commands.CloudError as exc:
            errors.append(str(exc))
        finally:
            for directory in directories:
                try:
                    self._command(area, action, directory)
                except commands.CloudError as exc:
                    errors.append(str(exc))
        if errors:
            raise commands.CloudError('\n'.join(errors))

    def _command(self, area: str, action: str, directory: pathlib.Path, *options: str) -> None:
        """Run a command of a cluster, its output in a log.

        :raises CloudError: it failed
        """
        log = self._logs / f'{directory.name}.{area}.log'
        with log.open('a') as output:
            done = subprocess.run(
                [sys.executable, '-m', 'cloud', area, action, *options, '--data', str(directory)],
                cwd=self._top, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        if done.returncode:
            raise commands.CloudError(
                f'{directory.name}: {area} {action} failed: see {log} and {directory}/log\n'
                + '\n'.join(log.read_text().splitlines()[-10:]))

