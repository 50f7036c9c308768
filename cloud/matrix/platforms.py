# SPDX-License-Identifier: Apache-2.0
"""The platforms, and where this machine gets their packages from."""

from collections.abc import Iterable
import dataclasses
import pathlib

from cloud import commands

_FORMAT = '$(REPO_URI)|$(ORIGIN)|$(LABEL)'
_KEYRINGS = pathlib.Path('/usr/share/keyrings')


class Unreachable(commands.CloudError):
    """This machine cannot get the packages of a platform."""


@dataclasses.dataclass(frozen=True)
class Platform:
    """A release of a distribution.

    :param origin: the distribution, as its archive calls itself
    :param suite: the release, as its archive calls it
    :param components: of the archive
    :param keyring: file of the keys that sign the archive
    :param keyring_package: package that has the keyring
    """

    name: str
    origin: str
    suite: str
    components: tuple[str, ...]
    keyring: str
    keyring_package: str

    def signed_by(self, keyrings: pathlib.Path = _KEYRINGS) -> pathlib.Path:
        """Return the path of the keyring.

        :raises Unreachable: this machine does not have it
        """
        path = keyrings / self.keyring
        if not path.exists():
            raise Unreachable(
                f'{self.name}: this machine has no {path}, which verifies the packages of '
                f'{self.origin}; install the package {self.keyring_package}')
        return path


def _debian(version: str, suite: str) -> Platform:
    return Platform(f'debian-{version}', 'Debian', suite, ('main',),
                    'debian-archive-keyring.gpg', 'debian-archive-keyring')


PLATFORMS = {platform.name: platform for platform in (
    _debian('12', 'bookworm'), _debian('13', 'trixie'), _debian('sid', 'sid'),
    Platform('ubuntu-24.04', 'Ubuntu', 'noble', ('main', 'universe'),
             'ubuntu-archive-keyring.gpg', 'ubuntu-keyring'))}


def mirror(platform: Platform) -> str:
    """Return the address of the archive that apt on this machine uses for a distribution.

    :raises Unreachable: none of apt's sources is of that distribution
    """
    sources = commands.run(['apt-get', 'indextargets', '--format', _FORMAT,
                            'Created-By: Packages'])
    return choose(platform, sources.splitlines())


def choose(platform: Platform, sources: Iterable[str]) -> str:
    """Choose a distribution's main archive.

    :param sources: a line for each of apt's sources: address, origin and label
    :raises Unreachable: none is of that distribution
    """
    for source in sources:
        address, origin, label = source.split('|')
        # Other labels belong to security updates and to backports.
        if origin == label == platform.origin:
            return address
    raise Unreachable(
        f"{platform.name}: none of apt's sources on this machine is the archive of "
        f'{platform.origin}: name one with --mirror (and run apt-get update if apt has one)')
