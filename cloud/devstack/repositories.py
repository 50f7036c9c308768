# SPDX-License-Identifier: Apache-2.0
"""The git repositories that DevStack clones, where they are not their developers' own."""

from collections.abc import Mapping, Sequence
import pathlib
import re

from cloud import commands
from cloud.devstack import layout
from cloud.matrix import jail
from cloud.matrix import root as roots

DEVELOPERS = 'https://opendev.org/openstack'
# What DevStack calls the address of each of its repositories.
VARIABLES = {
    'cinder': 'CINDER_REPO', 'glance': 'GLANCE_REPO', 'keystone': 'KEYSTONE_REPO',
    'neutron': 'NEUTRON_REPO', 'nova': 'NOVA_REPO', 'os-test-images': 'OSTESTIMAGES_REPO',
    'placement': 'PLACEMENT_REPO', 'requirements': 'REQUIREMENTS_REPO', 'tempest': 'TEMPEST_REPO'}
PLUGIN_CEPH = 'devstack-plugin-ceph'
NAMES = ('devstack', PLUGIN_CEPH, *VARIABLES)
# Those that are packages as well, by the names of the packages.
PACKAGES = {name: name for name in ('cinder', 'glance', 'keystone', 'neutron', 'nova', 'tempest')
            } | {'placement': 'openstack-placement'}
CONSTRAINTS = layout.GIT / 'upper-constraints.txt'
_MINUTES = 60.0
_TIMEOUT = 20 * _MINUTES
_OUR_CONSTRAINTS = roots.PROJECT / 'constraints.txt'


def given(words: Sequence[str]) -> dict[str, str]:
    """Return addresses by names of repositories.

    :param words: of the form ``NAME=ADDRESS``
    :raises CloudError: one has another form, or names none of DevStack's repositories
    """
    addresses = {}
    for word in words:
        name, equals, address = word.partition('=')
        if name not in NAMES or not equals or not address:
            raise commands.CloudError(f'{word}: expected NAME=ADDRESS, with one of the names '
                                      f'{", ".join(NAMES)}')
        addresses[name] = address
    return addresses


def pins(constraints: str) -> dict[str, str]:
    """Return the versions of a list of constraints, by normalized name."""
    pairs = (line.split(';')[0].strip().partition('==') for line in constraints.splitlines())
    return {_key(name): version.lstrip('=') for name, equals, version in pairs if equals}


def constrain(theirs: str, ours: str) -> str:
    """Return OpenStack's constraints with the versions that this project was tested with.

    :param theirs: the contents of ``upper-constraints.txt``
    :param ours: the contents of ``constraints.txt``
    """
    versions = pins(ours)
    # It comes with the virtual environments.
    versions.pop('setuptools', None)
    lines = []
    seen = set()
    for line in theirs.splitlines():
        name = line.split('===')[0]
        key = _key(name)
        if key not in versions:
            lines.append(line)
        elif key not in seen:
            seen.add(key)
            lines.append(f'{name}==={versions[key]}')
    return '\n'.join(lines) + '\n'


def _key(name: str) -> str:
    return re.sub('[-_.]+', '-', name).lower()


class Repositories:
    """The repositories of a container.

    :param files: places of the DevStack
    :param addresses: of those that are cloned from elsewhere, by name
    :param from_packages: whether services come from the package index
    """

    def __init__(self, files: layout.Layout, addresses: Mapping[str, str],
                 from_packages: bool) -> None:
        self._files = files
        self._addresses = addresses
        self.from_packages = from_packages

    def make(self, progress: commands.Progress) -> None:
        """Make those that do not exist, and bring this project's up to date.

        :raises CloudError: one cannot be had
        """
        self._files.inside(layout.GIT).mkdir(parents=True, exist_ok=True)
        for name, address in self._addresses.items():
            if not self._path(name).exists():
                progress(f'cloning {name}')
                self._clone(name, address)
        if self.from_packages:
            versions = pins(_OUR_CONSTRAINTS.read_text())
            for name, package in PACKAGES.items():
                if name not in self._addresses and not self._path(name).exists():
                    progress(f'making a repository of {package} {versions[_key(package)]}')
                    self._make_of_package(name, package, versions[_key(package)])
        self._clone_project()

    def addresses(self) -> dict[str, str]:
        """Return the address in the container of each repository that is not its developers'."""
        local = set(self._addresses) | (set(PACKAGES) if self.from_packages else set())
        return {name: f'file://{layout.GIT}/{name}.git' for name in NAMES if name in local}

    def _path(self, name: str) -> pathlib.Path:
        return self._files.inside(layout.GIT / f'{name}.git')

    def _clone(self, name: str, address: str) -> None:
        work = self._files.data / f'{name}.new'
        commands.run(['rm', '-rf', str(work)])
        commands.run(['git', 'clone', '-q', '--no-hardlinks', address, str(work)], _TIMEOUT)
        if name == 'requirements' and self.from_packages:
            self._constrain(work)
        commands.run(['git', 'clone', '-q', '--bare', str(work), str(self._path(name))], _TIMEOUT)
        commands.run(['rm', '-rf', str(work)])

    def _constrain(self, work: pathlib.Path) -> None:
        path = work / 'upper-constraints.txt'
        path.write_text(constrain(path.read_text(), _OUR_CONSTRAINTS.read_text()))
        self._files.inside(CONSTRAINTS).write_text(path.read_text())
        commands.run(['git', '-C', str(work), '-c', 'user.name=devstack',
                      '-c', 'user.email=devstack@localhost', 'commit', '-qam',
                      'Versions that were tested together'])

    def _make_of_package(self, name: str, package: str, version: str) -> None:
        log = self._files.logs / 'repositories.log'
        status = jail.run(self._files.root.path, [
            str(layout.STAND_INS / 'make-repository.sh'), str(layout.GIT / f'{name}.git'),
            package, version], log)
        if status:
            raise commands.CloudError(f'no repository could be made of {package} {version}: '
                                      f'see {log}')

    def _clone_project(self) -> None:
        """Have a branch ``checkout`` that is this checkout's last commit."""
        path = self._path('specreds')
        if not path.exists():
            commands.run(['git', 'init', '-q', '--bare', str(path)])
        commands.run(['git', '-C', str(path), 'fetch', '-q', '--force', '--tags',
                      str(roots.PROJECT), '+HEAD:refs/heads/checkout'], _TIMEOUT)
