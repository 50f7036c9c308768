# SPDX-License-Identifier: Apache-2.0
"""The capabilities in Ceph of a user that superposes volumes."""

from collections.abc import Iterable, Mapping
import re
import shlex

# `profile rbd` lets a client read the maps (so the list of the blocklist, and the pools' settings)
# and add entries of the form address/nonce to the blocklist. It does not let it take an entry
# away, which ending a superposition without a promotion needs: the second grant allows that.
# Nonce 0 is left out, because `address:0/0` is how Ceph spells a whole host: a host that an
# administrator fenced stays fenced.
MON_GRANTS = ('profile rbd', 'allow command "osd blocklist" with blocklistop=rm '
                             'addr regex "^[^/]+/[1-9][0-9]*$"')
MON = ', '.join(MON_GRANTS)
# The namespace with the objects that sentinels watch.
SENTINELS = 'specreds-sentinels'
_EVERYTHING = 'allow *'
# A comma or semicolon outside of quotes separates two grants.
_GRANT = re.compile(r'(?:"[^"]*"|[^,;"])+')
# A grant to write volumes, in one pool or in all.
_WRITES = re.compile(r'(?:profile rbd|allow (?:rwx|\*))(?: pool[ =]+(?P<pool>\S+))?')


def grants(caps: str) -> list[str]:
    """Return the single grants of a daemon's capabilities."""
    return [grant.strip() for grant in _GRANT.findall(caps) if grant.strip()]


def complete(caps: Mapping[str, str], pools: Iterable[str] = ()) -> dict[str, str]:
    """Return a user's capabilities with all that superpositions need.

    :param caps: the user's capabilities by kind of daemon; none of them is lost
    :param pools: pools whose volumes are to be superposed
    """
    completed = {**caps, 'mon': _joined(caps.get('mon', ''), MON_GRANTS)}
    osd = grants(caps.get('osd', ''))
    missing = [f'profile rbd pool={pool}' for pool in pools if not _written(osd, pool)]
    if missing:
        completed['osd'] = _joined(caps.get('osd', ''), missing)
    return completed


def sentinel(pools: Iterable[str]) -> dict[str, str]:
    """Return the capabilities of a client that is for sentinels only.

    It reads volumes and records, and writes only what gives hosts a second opinion: a namespace
    with an empty object for each host, which sentinels watch.

    :param pools: pools of volumes
    """
    return {'mon': 'profile rbd-read-only', 'osd': ', '.join(
        grant for pool in pools for grant in (
            f'profile rbd-read-only pool={pool}',
            f'allow rw pool={pool} namespace={SENTINELS}'))}


def complete_sentinel(caps: Mapping[str, str], pools: Iterable[str]) -> dict[str, str]:
    """Return a user's capabilities with all that a sentinel needs.

    :param caps: the user's capabilities by kind of daemon; none of them is lost
    :param pools: pools of volumes
    """
    wanted = sentinel(pools)
    return {**caps, **{daemon: _joined(caps.get(daemon, ''), grants(needed))
                       for daemon, needed in wanted.items() if needed}}


def _joined(caps: str, needed: Iterable[str]) -> str:
    existing = grants(caps)
    if _EVERYTHING in existing:
        return caps
    missing = [grant for grant in needed if grant not in existing]
    return ', '.join([caps.strip(), *missing] if existing else missing) if missing else caps


def _written(osd: Iterable[str], pool: str) -> bool:
    """Whether one of the grants is to write volumes of a pool."""
    matches = map(_WRITES.fullmatch, osd)
    return any(match and match['pool'] in (None, pool) for match in matches)


def command(user: str, caps: Mapping[str, str]) -> str:
    """Return the command that gives a user capabilities, quoted for a shell.

    :param user: with its type, such as ``client.cinder``
    """
    return shlex.join(['ceph', 'auth', 'caps', user,
                       *(word for pair in caps.items() for word in pair)])
