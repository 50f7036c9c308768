# SPDX-License-Identifier: Apache-2.0
"""Releases the clients that stay fenced after their superposition, once they have ended."""

from collections.abc import Collection, Mapping
import dataclasses
import datetime
import ipaddress
import logging

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.exclusion import fenced as fences
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.truth import record as records

LOG = logging.getLogger(__name__)

# Seconds by which the clocks of two controllers may differ.
_CLOCKS_S = 60.0
# Seconds for which a client without a blocklist entry stays in the list: a fence enters it into
# the list first.
_ENTERED_S = 3600.0


@dataclasses.dataclass(frozen=True)
class FencedClient:
    """A client on the blocklist that its superposition has fenced for good.

    :param left_s: seconds until Ceph removes the blocklist entry
    """

    client: str
    entry: fences.Entry
    left_s: float


def fenced(site: base.Site, home: records.Home) -> list[FencedClient]:
    """Return the clients of a home that stay fenced, oldest first.

    Clients whose blocklist entry is gone leave the list.
    """
    listing = site.fenced_clients.read(home)
    clients = _blocklisted(site, listing)
    latest = _latest(datetime.datetime.now(datetime.UTC), _ENTERED_S).isoformat()
    gone = listing.entries.keys() - {listed.client for listed in clients}
    site.fenced_clients.remove(home, [
        client for client in gone if listing.entries[client].fenced_at < latest], listing)
    return clients


def release(site: base.Site, home: records.Home, clients: Collection[str]) -> None:
    """Remove the blocklist entries of clients.

    The caller has proof that each of them has ended: a client that hangs and has not met the
    fence writes again.

    :raises InvalidInput: a client is not in the list of the home, or not on the blocklist
    """
    listing = site.fenced_clients.read(home)
    unknown = set(clients) - {listed.client for listed in _blocklisted(site, listing)}
    if unknown:
        raise errors.InvalidInput(
            f'{", ".join(sorted(unknown))}: fenced by no superposition that has ended in '
            f'{home}')
    _open(site, home, clients, listing)


def release_booted(site: base.Site, home: records.Home, boots: Mapping[str, datetime.datetime],
                   clocks_s: float = _CLOCKS_S) -> list[str]:
    """Remove the blocklist entries of clients that boots of their hosts have ended.

    May be repeated, also by several callers at the same time.

    :param boots: time of a boot, with its zone, by address of the host, as its clients have
        it; no other host has that address
    :param clocks_s: seconds by which the clock of these times may differ from the clocks of
        the controllers that have fenced
    :returns: the clients that were released
    :raises InvalidInput: a time has no zone, or an address is none
    """
    latest = {_plain(host): _latest(booted_at, clocks_s) for host, booted_at in boots.items()}
    listing = site.fenced_clients.read(home)
    ended = [listed.client for listed in _blocklisted(site, listing) if _ended(listed, latest)]
    _open(site, home, ended, listing)
    return ended


def _blocklisted(site: base.Site, listing: fences.Listing) -> list[FencedClient]:
    """Return which of some clients are on the blocklist, oldest first."""
    if not listing.entries:
        return []
    left = site.fence.remaining(listing.entries)
    return sorted((FencedClient(client, entry, left[client])
                   for client, entry in listing.entries.items() if client in left),
                  key=lambda listed: (listed.entry.fenced_at, listed.client))


def _open(site: base.Site, home: records.Home, clients: Collection[str],
          listing: fences.Listing) -> None:
    """Remove the blocklist entries of clients that have ended.

    If the list has changed meanwhile, :func:`fenced` removes the clients from it later.
    """
    site.fence.open(clients)
    site.fenced_clients.remove(home, clients, listing)


def _ended(listed: FencedClient, latest: Mapping[str, datetime.datetime]) -> bool:
    """Return whether a boot of its host has certainly ended a client.

    :param latest: for each host the latest time of a fence whose clients a boot has ended
    """
    try:
        boot = latest.get(_plain(address.host(address.check(listed.client))))
        return boot is not None and datetime.datetime.fromisoformat(listed.entry.fenced_at) < boot
    except (errors.InvalidInput, ValueError, TypeError) as exc:
        LOG.warning('fenced client %s stays fenced, others are released: its entry is '
                    'malformed: %s', listed.client, exc)
        return False


def _latest(booted_at: datetime.datetime, clocks_s: float) -> datetime.datetime:
    """Return the latest time of a fence whose clients a boot has certainly ended.

    :raises InvalidInput: the time of the boot has no zone
    """
    if booted_at.tzinfo is None:
        raise errors.InvalidInput(f'the time {booted_at.isoformat()} has no zone')
    return booted_at - datetime.timedelta(seconds=clocks_s)


def _plain(host: str) -> str:
    """Return an IP address in the one form that equal addresses share.

    :raises InvalidInput: it is none
    """
    try:
        return str(ipaddress.ip_address(host.strip('[]')))
    except ValueError as exc:
        raise errors.InvalidInput(f'{host!r} is not an IP address') from exc
