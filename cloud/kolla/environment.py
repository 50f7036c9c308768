# SPDX-License-Identifier: Apache-2.0
"""Virtual environments with kolla, which builds images, and kolla-ansible, which deploys them."""

from collections.abc import Mapping
import pathlib
import sys

from cloud import commands

# By release of OpenStack. kolla-ansible of 2026.2 is not published.
RELEASES: Mapping[str, tuple[str, ...]] = {
    '2026.1': ('kolla==22.2.0', 'kolla-ansible==22.2.0'),
    '2026.2': ('kolla==23.0.0',),
}
# kolla-build imports it also where it only writes Dockerfiles.
_OTHERS = ('docker',)
# Seconds that an installation may take.
_INSTALLING = 1800.0


def prepare(data: pathlib.Path, release: str, progress: commands.Progress) -> pathlib.Path:
    """Return the virtual environment of a release; it is made at its first use.

    :param data: directory of all environments
    """
    place = data / f'venv-{release}'
    packages = [*RELEASES[release], *_OTHERS]
    installed = place / 'installed'
    if not installed.exists() or installed.read_text().split() != packages:
        progress(f'installing {" ".join(packages)}: about a minute')
        commands.run([sys.executable, '-m', 'venv', '--clear', str(place)], _INSTALLING)
        commands.run([str(place / 'bin' / 'pip'), 'install', '--disable-pip-version-check',
                      *packages], _INSTALLING)
        installed.write_text(' '.join(packages))
    return place
