# SPDX-License-Identifier: Apache-2.0
"""What Ceph lets each user do."""

from collections.abc import Iterable

ADMIN = {'mon': 'allow *', 'mgr': 'allow *', 'osd': 'allow *'}
MON = {'mon': 'allow *'}
MGR = {'mon': 'allow profile mgr', 'osd': 'allow *'}
OSD = {'mon': 'allow profile osd', 'mgr': 'allow profile osd', 'osd': 'allow *'}

# `profile rbd` lets a client read the maps (so the list of the blocklist, and the pools' settings)
# and add entries of the form address/nonce to the blocklist. It does not let it take an entry
# away, which ending a superposition without a promotion needs: the second grant allows that.
# Nonce 0 is left out, because `address:0/0` is how Ceph spells a whole host: a host that an
# administrator fenced stays fenced.
CINDER_MON = ('profile rbd, allow command "osd blocklist" with blocklistop=rm '
              'addr regex "^[^/]+/[1-9][0-9]*$"')


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
