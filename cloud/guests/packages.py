# SPDX-License-Identifier: Apache-2.0
"""Packages of this machine's distribution, downloaded and unpacked without installing them.

Nothing here needs root, and nothing of the machine's own packages is changed.
"""

from collections.abc import Iterable, Sequence
import dataclasses
import pathlib
import re
import subprocess
import urllib.parse

from cloud import commands

_TIMEOUT = 300.0
# 'URI' NAME SIZE [HASH]
_LINE = re.compile(r"^'[^']+' (?P<file>\S+\.deb) \d+", re.MULTILINE)


@dataclasses.dataclass(frozen=True, order=True)
class Package:
    """One version of a package."""

    name: str
    version: str

    def __str__(self) -> str:
        return f'{self.name}={self.version}'


class Archive:
    """What apt can download.

    :param directory: where apt may keep lists of packages, should the machine have none
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._updated = False

    def closure(self, names: Sequence[str],
                progress: commands.Progress = commands.silent) -> list[Package]:
        """List packages and everything they depend on, as if nothing was installed.

        :raises CloudError: apt does not know one of them, or cannot be reached
        """
        for name in ('lists/partial', 'cache/archives/partial'):
            (self._directory / name).mkdir(parents=True, exist_ok=True)
        (self._directory / 'status').touch()
        said = self._ask(['-y', '--no-install-recommends', '--print-uris', 'install', *names],
                         progress)
        return sorted(_package(match['file']) for match in _LINE.finditer(said))

    def download(self, packages: Iterable[Package], target: pathlib.Path,
                 progress: commands.Progress = commands.silent) -> None:
        """Download packages into a directory.

        :raises CloudError: one of them could not be had
        """
        self._ask(['download', *map(str, packages)], progress, ['env', '-C', str(target)])

    def _ask(self, words: Sequence[str], progress: commands.Progress,
             prefix: Sequence[str] = ()) -> str:
        """Run apt-get, once more with newer lists if it fails with those there are."""
        try:
            return commands.run([*prefix, *self._apt(*words)], _TIMEOUT)
        except commands.CloudError:
            if self._updated:
                raise
            self._update(progress)
            return commands.run([*prefix, *self._apt(*words)], _TIMEOUT)

    def _update(self, progress: commands.Progress) -> None:
        progress('reading the list of packages')
        self._updated = True
        commands.run(self._apt('update'), _TIMEOUT)

    def _apt(self, *words: str) -> list[str]:
        # An empty status: what the machine itself has installed must not matter.
        options = {'Dir::State::status': self._directory / 'status',
                   'Dir::Cache': self._directory / 'cache',
                   'Debug::NoLocking': 'true', 'APT::Sandbox::User': '',
                   **({'Dir::State::lists': self._directory / 'lists'} if self._updated else {})}
        return ['apt-get', '-qq', *(word for name, value in options.items()
                                    for word in ('-o', f'{name}={value}')), *words]


def extract(deb: pathlib.Path, target: pathlib.Path, exclude: Iterable[str] = ()) -> None:
    """Unpack a package's files below a directory, without their owners.

    :param exclude: patterns of paths, such as ``./usr/share/doc/*``, that are left out
    :raises CloudError: it is no package
    """
    with subprocess.Popen(['dpkg-deb', '--fsys-tarfile', str(deb)],
                          stdout=subprocess.PIPE) as source:
        unpack = subprocess.run(
            ['tar', '-x', '-C', str(target), '--no-same-owner', '--keep-directory-symlink',
             *(f'--exclude={pattern}' for pattern in exclude)],
            stdin=source.stdout, stderr=subprocess.PIPE, text=True)
    if source.returncode or unpack.returncode:
        raise commands.CloudError(f'{deb} cannot be unpacked: {unpack.stderr.strip()}')


def _package(file: str) -> Package:
    name, version, _architecture = file.split('_')
    return Package(name, urllib.parse.unquote(version))
