# SPDX-License-Identifier: Apache-2.0
"""Make the empty stores of a new cluster: keys, monitor, OSDs."""

from concurrent import futures
import os
import pathlib

from cloud import caps
from cloud import ceph_conf
from cloud import commands
from cloud import layout


def write_confs(files: layout.Layout, settings: layout.Settings) -> None:
    """Write the configuration files of the daemons, of the administrator and of Cinder."""
    files.daemon_conf.write_text(ceph_conf.daemon(files, settings))
    files.admin_conf.write_text(ceph_conf.client(files, settings, 'client.admin'))
    files.client_conf.write_text(ceph_conf.client(files, settings, 'client.cinder'))


def _create_key(path: pathlib.Path, entity: str, grants: dict[str, str]) -> None:
    """Make a key in a file that only its owner can read; it is never an argument or a log line."""
    path.parent.mkdir(exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    words = [word for daemon, allowed in grants.items() for word in ('--cap', daemon, allowed)]
    commands.run(['ceph-authtool', str(path), '--gen-key', '--name', entity, *words])


def create(files: layout.Layout, settings: layout.Settings, progress: commands.Progress) -> None:
    """Make everything that must be there before the first daemon starts.

    :param files: an empty directory
    :raises CloudError: one of Ceph's programs failed
    """
    for directory in (files.run, files.log):
        directory.mkdir(exist_ok=True)
    progress('creating keys')
    # The monitor takes everybody's keys out of this file when it is formatted.
    initial = files.root / 'initial.keyring'
    _create_key(initial, 'mon.', caps.MON)
    grants = {'client.admin': caps.ADMIN, 'mgr.x': caps.MGR,
              **{f'osd.{number}': caps.OSD for number in range(settings.osds)},
              'client.cinder': caps.cinder(['volumes'])}
    for entity, allowed in grants.items():
        _create_key(files.keyring(entity), entity, allowed)
        commands.run(['ceph-authtool', str(initial), '--import-keyring',
                      str(files.keyring(entity))])
    monitors = settings.monitor_addresses
    commands.run(['monmaptool', '--create', '--fsid', settings.fsid,
                  *(word for item in monitors.items() for word in ('--addv', *item)),
                  str(files.root / 'monmap')])
    progress(f'formatting {len(monitors)} monitor(s) and {settings.osds} OSDs')
    shared = ['--mkfs', '--conf', str(files.daemon_conf), '--monmap', str(files.root / 'monmap')]
    programs = [['ceph-mon', '--id', name, '--keyring', str(initial), *shared]
                for name in monitors]
    programs += [['ceph-osd', '--id', str(number), '--no-mon-config',
                  '--osd-uuid', settings.osd_uuid(number), *shared]
                 for number in range(settings.osds)]
    with futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda argv: commands.run(argv, timeout=120), programs))
    initial.unlink()
    files.formatted.touch()
