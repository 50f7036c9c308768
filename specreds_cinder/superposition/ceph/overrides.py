# SPDX-License-Identifier: Apache-2.0
"""Options of librbd that an image or its pool sets for all clients, whatever ceph.conf says."""

from collections.abc import Iterable, Mapping
from typing import Any

import rbd

from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.truth import record as records

_LOCK = 'rbd_blocklist_on_break_lock'
_COPY = 'rbd_clone_copy_on_read'
# Ceph's ways to write false; it stores what was typed.
_OFF = ('false', 'no', 'off', '0')


def of_pool(cluster: ceph.Cluster, home: records.Home) -> list[str]:
    """Return the reasons why no image of a pool can be superposed, by the pool's options.

    :raises ClusterError: there is no such pool
    """
    with cluster.ioctx(home.pool) as io, ceph.answering(f'list the options of pool {home.pool}'):
        return [_reason(option, f'rbd config pool rm {home.pool}')
                for option in _harmful(rbd.RBD().config_list(io))]


def of_image(image: Any, ref: records.VolumeRef) -> list[str]:
    """Return the reasons why an image cannot be superposed, by its options and its pool's."""
    return [_reason(option, f'rbd config pool rm {ref.pool}'
                    if option['source'] == rbd.RBD_CONFIG_SOURCE_POOL
                    else f'rbd config image rm {ref}')
            for option in _harmful(image.config_list())]


def _harmful(options: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the options that are set for all clients, and undo what a fence relies on.

    Servers and their backups need different values of the first one, so that each value is wrong
    for some of them.
    """
    return [option for option in options if option['source'] != rbd.RBD_CONFIG_SOURCE_CONFIG
            and (option['name'] == _LOCK
                 or (option['name'] == _COPY and option['value'].lower() not in _OFF))]


def _reason(option: Mapping[str, Any], remove: str) -> str:
    place = 'its pool' if option['source'] == rbd.RBD_CONFIG_SOURCE_POOL else 'the image'
    effect = ('a backup would copy what it reads into the volume, as a write of the primary'
              if option['name'] == _COPY else
              'either backups fence primaries, or an evacuation does not fence the failed host')
    return (f'{place} sets {option["name"]} = {option["value"]} for all clients, whatever their '
            f'ceph.conf says, so that {effect}: run "{remove} {option["name"]}"')
