# SPDX-License-Identifier: Apache-2.0
"""Check the configuration of nova-compute and specreds-sentinel on this host."""

from collections.abc import Iterator
import importlib
import json
import pathlib
import subprocess
import time

from specreds_nova import alias
from specreds_nova import cache_policy
from specreds_nova import conf as nova_conf
from specreds_nova import deployment
from specreds_nova.sentinel import conf as sentinel_conf
from specreds_nova.sentinel import privileges
from specreds_nova.status import files
from specreds_nova.status import findings

DRIVER = deployment.compute()['DEFAULT']['compute_driver']
_GROUP = nova_conf.GROUP.name
_CEPH = '/etc/ceph/ceph.conf'
# Seconds for another Python to import Nova's driver.
_IMPORTING = 60.0
# Fails before it connects to Ceph: what counts is whether QEMU has the driver.
_OPEN_RBD = ('qemu-img', 'info', '--image-opts', 'driver=rbd,pool=-,image=-,conf=/nonexistent')
_NO_DRIVER = "Unknown driver 'rbd'"
# Options of the hosts' ceph.conf with the value that does harm, and the harm.
_HARMFUL = {
    'rbd_blocklist_on_break_lock': (
        'false', 'a server that is evacuated does not shut out the host that had its volumes'),
    'rbd_clone_copy_on_read': (
        'true', 'a server that only reads its cloned volume writes to it, which decides every '
                'race for a primary that may be cut off'),
}
_STATE = '/var/lib/nova'
# Seconds since a running sentinel has written its file.
_FRESH = 60.0


def in_use(config: files.Files) -> bool:
    """Return whether nova-compute runs with the plug-in's driver."""
    return config.get('DEFAULT', 'compute_driver') == DRIVER


def named(config: files.Files) -> bool:
    """Return whether a file names the plug-in's driver, though another file may override it."""
    return any(in_use(files.read([path])) for path in config.paths)


def settings(config: files.Files, engine: files.Files | None, python: str
             ) -> Iterator[findings.Finding]:
    """Check the options that backups need, and that an engine on this host agrees.

    :param python: the Python that runs nova-compute
    """
    if not in_use(config):
        driver = config.get('DEFAULT', 'compute_driver')
        last = [path for path in config.paths
                if files.read([path]).all('DEFAULT', 'compute_driver')][-1]
        yield findings.failure(
            f"nova-compute runs Nova's own driver: {last} sets compute_driver = {driver}, and is "
            f'read last. Set compute_driver = {DRIVER} there')
        return
    if reason := _import_fault(python):
        yield findings.failure(
            f'{python} does not import {alias.ALIAS}, so that nova-compute does not start '
            f'({reason}): install the package into the environment of nova-compute again, with '
            'specreds.pth')
    else:
        # Nova itself is imported only where it is in use, and can be.
        nova_private = importlib.import_module('specreds_nova.host.nova_private')
        for fault in nova_private.faults():
            yield findings.failure(f'there are no backups on this host, as the plug-in does not '
                                   f'fit the installed Nova: {fault}')
        dhcp = importlib.import_module('specreds_nova.host.box.dhcp')
        if (missing := dhcp.missing()) is not None:
            yield findings.failure(missing)
    if not config.get('DEFAULT', 'transport_url'):
        yield findings.failure(f'{config}: set [DEFAULT] transport_url')
    if not config.get('cinder', 'auth_type'):
        yield findings.failure(f'{config}: set [cinder] auth_type and the rest: as whom Cinder is '
                               'asked for the second version of volumes; the role service is '
                               'needed')
    yield from files.judge(config, _GROUP, [*nova_conf.OPTIONS, *sentinel_conf.OPTIONS])
    if _number(config.get(_GROUP, 'heartbeat_interval', '0.2')) == 0:
        yield findings.warning(f'{config}: [specreds] heartbeat_interval is 0: servers of this '
                               'host are not recovered when it fails')
    conffile = config.get('libvirt', 'images_rbd_ceph_conf') or _CEPH
    modes = config.words('libvirt', 'disk_cachemodes')
    if reason := cache_policy.warning(modes, conffile):
        yield findings.warning(f'{config}: {reason}')
    yield from ceph_conf(config.get(_GROUP, 'sentinel_ceph_conf', _CEPH))
    yield from qemu()
    yield from sentinel_running(config)


def ceph_conf(path: str) -> Iterator[findings.Finding]:
    """Check the options of librbd that recoveries and ordinary evacuations rely on."""
    if not pathlib.Path(path).exists():
        yield findings.failure(f'{path} is not there: specreds-sentinel needs it')
        return
    import rados
    try:
        client = rados.Rados(conffile=path, rados_id='none')
        for option, (value, harm) in _HARMFUL.items():
            if client.conf_get(option) == value:
                yield findings.warning(f'{path}: remove {option} = {value}: {harm}. Backups have '
                                       'a configuration of their own')
    except rados.Error as exc:
        yield findings.failure(f'{path} cannot be read: {exc}')


def qemu() -> Iterator[findings.Finding]:
    """Check that QEMU on this host opens RBD images."""
    try:
        opened = subprocess.run(_OPEN_RBD, capture_output=True, text=True, check=False)
    except OSError as exc:
        yield findings.warning(f'qemu-img does not run: {exc}')
        return
    if _NO_DRIVER in opened.stderr:
        yield findings.warning(
            "QEMU has no driver for RBD, so that no server runs from a volume: install Debian's "
            'qemu-block-extra, or qemu-kvm-block-rbd')


def _import_fault(python: str) -> str | None:
    """Return why the Python of nova-compute does not import its driver; None if it does.

    Another process shows what a start of Python does: this one has the alias in any case.
    """
    driver = str(DRIVER).rpartition('.')[2]
    try:
        subprocess.run([python, '-c', f'from {alias.ALIAS} import {driver}'], cwd='/',
                       capture_output=True, text=True, check=True, timeout=_IMPORTING)
    except subprocess.CalledProcessError as exc:
        said: list[str] = exc.stderr.splitlines()
        return [f'status {exc.returncode}', *said][-1]
    except (OSError, subprocess.TimeoutExpired) as exc:
        return str(exc)
    return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def sentinel_running(config: files.Files, proc: pathlib.Path = pathlib.Path('/proc')
            ) -> Iterator[findings.Finding]:
    """Check that the sentinel runs, and what it may do.

    :param config: of nova-compute
    :param proc: where the kernel describes processes
    """
    path = pathlib.Path(config.get('DEFAULT', 'state_path', _STATE), 'specreds/sentinel.json')
    try:
        status = json.loads(path.read_text())
        pid = int(status['pid'])
        written = path.stat().st_mtime
    except FileNotFoundError:
        yield findings.failure(f'specreds-sentinel has never run on this host ({path} is '
                               'missing), so that servers of this host are not moved: start it')
        return
    except (OSError, ValueError, KeyError, TypeError):
        return
    try:
        # The number may be another program's by now.
        if b'specreds-sentinel' not in (proc / str(pid) / 'cmdline').read_bytes():
            raise FileNotFoundError
        missing = privileges.missing(pid, proc)
    except OSError:
        # In a container the processes of the host may be invisible.
        if time.time() - written > _FRESH:
            yield findings.failure('specreds-sentinel does not run, so that nobody ends or hides '
                                   'servers that were promoted elsewhere: start it')
        return
    except ValueError:
        return
    if missing:
        yield findings.failure(
            f'specreds-sentinel (process {pid}) lacks {" and ".join(missing)}: it cannot end '
            'servers that were promoted elsewhere; run it as root, or add them to '
            'AmbientCapabilities of its unit')
    for pool, why in status.get('unwatched', {}).items():
        yield findings.warning(
            f'specreds-sentinel gives no second opinion on servers with disks in pool {pool} '
            f'({why}): idle ones are replaced if nova-compute is killed; "specreds-super caps '
            f'--sentinel --pool {pool}" prints the capabilities of its client')
