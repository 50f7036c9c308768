# SPDX-License-Identifier: Apache-2.0
"""All checks of ``deploy/kolla``."""

import pathlib

from cloud import commands
from cloud.kolla import configuration
from cloud.kolla import environment
from cloud.kolla import images

SOURCES = pathlib.Path(__file__).parents[2] / 'deploy' / 'kolla'


def run(data: pathlib.Path, progress: commands.Progress) -> int:
    """Check everything.

    :param data: directory for whatever is installed and generated
    :return: the exit status: 1 if something does not fit
    """
    faults = []
    for release, packages in environment.RELEASES.items():
        venv = environment.prepare(data, release, progress)
        for base in images.BASES:
            progress(f'{packages[0]}: Dockerfiles for {base}')
            work = data / f'{release}-{base}'
            images.generate(venv, SOURCES, base, work)
            faults += [f'{packages[0]}: {fault}' for fault in images.faults(work, base)]
        if len(packages) > 1:
            progress(f'{packages[1]}: configuration, some minutes')
            node = configuration.write(venv, SOURCES, data / f'{release}-configuration')
            faults += [f'{packages[1]}: {fault}' for fault in configuration.faults(node)]
    for fault in faults:
        progress(f'does not fit: {fault}')
    if not faults:
        progress('everything fits')
    return 1 if faults else 0
