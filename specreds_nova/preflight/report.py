# SPDX-License-Identifier: Apache-2.0
"""The report on a cloud's servers, as text and as data."""

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
import re
from typing import Any

from specreds_nova import cache_policy
from specreds_nova.engine.placing import judgement
from specreds_nova.preflight import judging
from specreds_nova.preflight import reading

# What is to be set, as in doc/source/install.rst.
COMPUTE = ('[DEFAULT]', 'compute_driver = specreds.SpeculativeLibvirtDriver')
SENTINEL = ('systemctl enable --now specreds-sentinel', 'systemctl restart nova-compute')
CINDER = ('[DEFAULT]',
          'volume_manager = specreds_cinder.manager.SuperVolumeManager',
          'volume_api_class = specreds_cinder.api.guards.VolumeAPI',
          'backup_api_class = specreds_cinder.api.guards.BackupAPI',
          'transfer_api_class = specreds_cinder.api.guards.TransferAPI',
          'group_api_class = specreds_cinder.api.guards.GroupAPI',
          'osapi_volume_extension = cinder.api.contrib.standard_extensions',
          'osapi_volume_extension = specreds_cinder.api.extension.Superpositions')
DRIVER = 'volume_driver = specreds_cinder.driver.SuperRBDDriver'
_HYPERVISORS = ('QEMU', 'KVM')
GROUPS = ('project', 'flavor', 'image', 'aggregate')
# Servers without room if their host fails alone, and if it fails together with another one.
ROOM = ('without_room', 'without_room_of_two')
# Rows of a table of the text.
_ROWS = 20
_ID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')


def data(judged: Sequence[judging.Judged]) -> dict[str, Any]:
    """Return the servers and their sums as data."""
    return {
        'servers': [dataclasses.asdict(server) for server in judged],
        'sums': {'all': counted(judged)} | {
            group: {name: counted(its) for name, its in _grouped(judged, group).items()}
            for group in GROUPS}}


def text(report: Mapping[str, Any]) -> str:
    """Return the report for people.

    :param report: what :func:`data` returns, with ``hosts`` as by :func:`work`
    """
    return '\n'.join(_lines(report))


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    total = report['sums']['all']
    yield f'{len(report["servers"])} servers, if their hosts failed:'
    for name in judgement.CLASSES:
        yield f'  {total[name]:6} {name}'
    reasons = collections.Counter(
        (server['recovery'], _ID.sub('…', reason))
        for server in report['servers'] for reason in server['reasons'])
    if reasons:
        yield 'reasons:'
    for (recovery, reason), times in reasons.most_common(_ROWS):
        yield f'  {times:6} {recovery}: {reason}'
    yield from _without_room(report)
    for group in GROUPS:
        yield f'{group}: {", ".join(judgement.CLASSES)}, without room'
        rows = sorted(report['sums'][group].items(),
                      key=lambda row: -sum(row[1][each] for each in judgement.CLASSES))
        for name, counts in rows[:_ROWS]:
            yield ' '.join([*(f'{counts[each]:6}' for each in (*judgement.CLASSES, ROOM[0])),
                            name or '-'])
        if len(rows) > _ROWS:
            yield f'  and {len(rows) - _ROWS} more: see --json'
    if report['hosts']:
        yield 'hosts that need work:'
    # Hosts that need the same are named together.
    same: dict[tuple[str, ...], list[str]] = {}
    for host, lines in report['hosts'].items():
        same.setdefault(tuple(lines), []).append(host)
    for lines, hosts in same.items():
        yield f'  {", ".join(hosts)}:'
        yield from (f'    {line}' for line in lines)


def _without_room(report: Mapping[str, Any]) -> Iterator[str]:
    total = report['sums']['all']
    yield 'servers that find no room, as Placement estimates:'
    yield f'  {total[ROOM[0]]:6} if one host fails'
    yield f'  {total[ROOM[1]]:6} more if two hosts fail at once'
    failed = collections.Counter(tuple(server['without_room']) for server in report['servers']
                                 if server['without_room'])
    for hosts, times in failed.most_common(_ROWS):
        yield f'  {times:6} {" and ".join(hosts)}'


def counted(judged: Iterable[judging.Judged]) -> dict[str, int]:
    """Return how many servers would get what, and how many would find no room."""
    judged = [*judged]
    counts = collections.Counter(server.recovery for server in judged)
    room = collections.Counter(len(server.without_room) for server in judged)
    return {name: counts[name] for name in judgement.CLASSES} | {
        name: room[hosts] for hosts, name in enumerate(ROOM, 1)}


def _grouped(judged: Iterable[judging.Judged], group: str) -> dict[str, list[judging.Judged]]:
    grouped: dict[str, list[judging.Judged]] = {}
    for server in judged:
        names = server.aggregates or ('',) if group == 'aggregate' else (
            str(getattr(server, group)),)
        for name in names:
            grouped.setdefault(name, []).append(server)
    return grouped


def work(cloud: reading.Cloud) -> Iterator[tuple[str, list[str]]]:
    """Yield hosts that need work, and the lines for each."""
    for service in sorted(cloud.services, key=lambda service: str(service['host'])):
        host, lines = str(service['host']), [*COMPUTE, *SENTINEL]
        kind = cloud.hypervisors.get(host)
        if kind is not None and kind not in _HYPERVISORS:
            lines = [f'# its hypervisor is {kind}: its servers have no backup']
        if service.get('status') == 'disabled' or service.get('forced_down'):
            lines.insert(0, '# nova-compute is disabled or forced down: nothing is done about it')
        yield host, lines
    if not cloud.extended and cloud.rbd_pools:
        yield 'a client of Ceph', [
            '# only if disk_cachemodes of nova.conf has network=writeback: servers that run get',
            '# it when they are started again or migrated, and have backups before that, too',
            *map(cache_policy.setting, sorted(cloud.rbd_pools))]
    if not cloud.extended:
        yield 'cinder-api and cinder-volume', list(CINDER)
        for backend, protocol in sorted(cloud.protocols.items()):
            if protocol == reading.CEPH:
                yield f'cinder-volume of {backend}', [f'[{backend.partition("@")[2]}]', DRIVER]
