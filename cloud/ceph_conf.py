# SPDX-License-Identifier: Apache-2.0
"""The configuration files of a one-machine Ceph."""

from collections.abc import Mapping
import pathlib

from cloud import layout
from specreds_nova import deployment

_COMMON = """\
[global]
fsid = {fsid}
mon host = {monitor}
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
ms bind ipv4 = {ipv4}
ms bind ipv6 = {ipv6}
"""

# A client must not write into the system's log and run directories.
_CLIENT = _COMMON + """
[client]
keyring = {keyring}
log file =
admin socket =
"""

_HYPERVISOR = _COMMON + """
[client]
keyring = {directory}/ceph.$name.keyring
log file =
admin socket =
"""

_DAEMON = _COMMON + """\
public addr = {address}
cluster addr = {address}
ms bind port min = {port_min}
ms bind port max = {port_max}
run dir = {run}
log file = {log}/$name.log
admin socket = {run}/$name.asok
pid file = {run}/$name.pid
crash dir = {log}
osd crush chooseleaf type = 0
osd pool default size = {size}
osd pool default min size = {min_size}
osd pool default pg num = {pg_num}
osd pool default pg autoscale mode = off

[mon]
mon data = {root}/$name
mon cluster log file = {log}/cluster.log
auth allow insecure global id reclaim = false
mon allow pool delete = true
mon allow pool size one = true
mon warn on pool no redundancy = false
# The disk is shared with everything else on the machine.
mon data avail warn = 1
mon data avail crit = 1
# Pools with several hundred placement groups are part of the benchmarks.
mon max pg per osd = 2000
# All OSDs are on one host: with the default (host) a dead one would never have enough reporters.
mon osd reporter subtree level = osd
# A fence waits for the monitors to commit, which they put off for up to a second (the default)
# after their last commit.
{mon}
mon osd min down reporters = {reporters}

[mgr]
mgr data = {root}/$name
mgr initial modules =

[osd]
osd data = {root}/$name
osd objectstore = bluestore
osd memory target = 1073741824
bluestore block create = true
bluestore block size = {osd_bytes}
{classes}
# On two cores fewer threads in the OSDs answer more stats per second (measured: 15 %).
osd op num shards = 2
osd op num threads per shard = 1
# An OSD takes a file for a rotating disk, and pauses 0.1 s after each object that it recovers.
osd recovery sleep hdd = 0
osd recovery sleep hybrid = 0
"""


def _common(settings: layout.Settings) -> dict[str, object]:
    return {'fsid': settings.fsid, 'monitor': settings.monitor,
            'ipv4': str(not settings.ipv6).lower(), 'ipv6': str(settings.ipv6).lower()}


def _options(options: Mapping[str, deployment.Value]) -> str:
    return '\n'.join(f'{name} = {value}' for name, value in options.items())


def classes(prefix: pathlib.Path = pathlib.Path('/usr')) -> str:
    """Return the option that says where the OSDs' object classes are, if they are below a prefix.

    The path that some distributions compile in is relative to an OSD's working directory.
    """
    places = sorted(path.parent for pattern in ('lib/*/', 'lib64/', 'lib/')
                    for path in prefix.glob(f'{pattern}rados-classes/libcls_rbd.so'))
    return f'osd class dir = {places[0]}' if places else ''


def client(files: layout.Layout, settings: layout.Settings, entity: str) -> str:
    """The configuration of a client such as `client.cinder`."""
    return _CLIENT.format(**_common(settings), keyring=files.keyring(entity))


def hypervisor(settings: layout.Settings, directory: str) -> str:
    """The configuration of all clients on a compute host.

    :param directory: where their keyrings are, as the host sees it
    """
    return _HYPERVISOR.format(**_common(settings), directory=directory)


def daemon(files: layout.Layout, settings: layout.Settings) -> str:
    """The configuration of all daemons."""
    size = min(settings.osds, 3)
    return _DAEMON.format(
        **_common(settings), address=settings.address.strip('[]'),
        port_min=settings.port + layout.FIRST_DAEMON_PORT,
        port_max=settings.port + layout.PORTS - 1,
        root=files.root, run=files.run, log=files.log, size=size, min_size=max(size - 1, 1),
        mon=_options(deployment.monitors()['mon']), reporters=max(size - 1, 1),
        pg_num=settings.pg_num, osd_bytes=settings.osd_bytes, classes=classes())
