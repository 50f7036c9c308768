# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative observe …``."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
import dataclasses
import datetime
import itertools
import time
from typing import Any

from osc_lib.command import command

from specreds_nova.engine import model
from specreds_nova.osc import base
from specreds_nova.osc import shown

# Seconds of silence after which each policy replaces the servers of a host: a backup is promoted
# once it has booted and the lease of its primary is over.
_POLICIES = {'speculative': 10.0, 'timeout 60 s': 60.0, 'timeout 180 s': 180.0}
# Seconds after the return of a host in which engines notice the servers that it has lost.
_NOTICED = 120.0
_COLUMNS = ('Policy', 'Hosts', 'Spared', 'Replaced', 'Wrongly', 'Open', 'Servers', 'Without Room',
            'Seconds Saved')


@dataclasses.dataclass(frozen=True)
class Decision:
    """The servers of one host that engines would have recovered at one time.

    :ivar suspected: when, in seconds since the epoch
    :ivar back: when the host was back by itself, with its servers; None if it was not
    :ivar open: the host is not back yet
    :ivar servers: how many servers
    :ivar roomless: servers for which no host had room
    """

    host: str
    suspected: float
    back: float | None
    open: bool
    servers: int
    roomless: int


def _add_since(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--since', metavar='<time>', type=shown.seconds, default='30d',
                        help='time before now, such as 90s, 30m, 2h or 1d (default: 30d)')


class Report(base.SpeculativeCommand, command.Lister):
    """Report what engines would have done where they only observe, and what timeouts would.

    Each row is a policy: speculative recovery, which replaces the servers of a host after about 10
    s of silence, and timeouts of 60 and 180 s. "Hosts": silences of hosts on which engines would
    have acted. "Spared": the host was back before its servers were replaced. "Replaced": it was
    not. "Wrongly": of these, the host came back by itself, with its servers. "Open": of these, the
    host is not back yet. "Servers": servers of the replaced hosts. "Without Room": servers of
    these hosts for which no other host had room. "Seconds Saved": how much sooner speculative
    recovery would have begun to serve than the timeout, in all servers that the timeout would have
    replaced. The row "restart" counts servers that have crashed on their hosts, or with them.
    """

    arguments = (_add_since,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        since = time.time() - parsed_args.since
        recoveries = list(itertools.takewhile(
            lambda recovery: _seconds(recovery['created_at']) >= since,
            self.client.recoveries({'outcome': model.OBSERVED})))
        crashed = [recovery for recovery in recoveries if _kinds(recovery) & {'crash'}]
        decided = [*decisions(recoveries)]
        return _COLUMNS, [*(_row(policy, after, decided) for policy, after in _POLICIES.items()),
                          ('restart', *[None] * 5, len(crashed), None, None)]


def decisions(recoveries: Iterable[Mapping[str, Any]]) -> Iterator[Decision]:
    """Yield the decisions that observed recoveries stand for.

    :param recoveries: as the API shows them
    """
    silent: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    # By host: when servers were missed that have ended with it.
    lost: dict[str, list[float]] = {}
    for recovery in recoveries:
        kinds = _kinds(recovery)
        if 'crash' not in kinds:
            silent.setdefault((recovery['host'], recovery['suspected_at']), []).append(recovery)
        elif 'boot' in kinds:
            lost.setdefault(recovery['host'], []).append(_seconds(recovery['created_at']))
    for (host, suspected_at), its in silent.items():
        suspected = _seconds(suspected_at)
        back = max((_seconds(recovery['ended_at']) for recovery in its if recovery['ended_at']),
                   default=None)
        without = back is not None and any(
            suspected <= at <= back + _NOTICED for at in lost.get(host, ()))
        yield Decision(host, suspected, None if without else back, back is None, len(its),
                       sum(bool(recovery['error']) for recovery in its))


def _row(policy: str, after: float, decided: Iterable[Decision]) -> tuple[Any, ...]:
    decided = [*decided]
    replaced = [each for each in decided
                if each.back is None or each.back - each.suspected > after]
    servers = sum(each.servers for each in replaced)
    saved = after - _POLICIES['speculative']
    return (policy, len(decided), len(decided) - len(replaced), len(replaced),
            sum(each.back is not None for each in replaced),
            sum(each.open for each in replaced), servers,
            sum(each.roomless for each in replaced), round(servers * saved) if saved else None)


def _kinds(recovery: Mapping[str, Any]) -> set[str]:
    return {str(fact.get('kind')) for fact in recovery['why']}


def _seconds(at: str) -> float:
    return datetime.datetime.fromisoformat(at).timestamp()
