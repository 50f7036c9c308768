# SPDX-License-Identifier: Apache-2.0
"""The Ceph capabilities of each user."""

from collections.abc import Iterable

from specreds_cinder import capabilities

ADMIN = {'mon': 'allow *', 'mgr': 'allow *', 'osd': 'allow *'}
MON = {'mon': 'allow *'}
MGR = {'mon': 'allow profile mgr', 'osd': 'allow *'}
OSD = {'mon': 'allow profile osd', 'mgr': 'allow profile osd', 'osd': 'allow *'}

CINDER_MON = capabilities.MON


def cinder(pools: Iterable[str], images: Iterable[str] = ()) -> dict[str, str]:
    """The capabilities of `client.cinder`, sufficient and minimal (functional test test_caps).

    :param pools: the pools of volumes and their data pools
    :param images: pools of Glance, from whose images volumes are cloned
    """
    return {'mon': CINDER_MON,
            'osd': ', '.join((*(f'profile rbd pool={pool}' for pool in sorted(pools)),
                              *(f'profile rbd-read-only pool={pool}' for pool in images)))}


def glance(pool: str) -> dict[str, str]:
    """The capabilities of Glance's user.

    :param pool: of the images
    """
    return {'mon': 'profile rbd', 'osd': f'profile rbd pool={pool}'}
