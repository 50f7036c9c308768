# SPDX-License-Identifier: Apache-2.0
"""The command line of ``./run demo``."""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import tempfile

from keystoneauth1 import exceptions as keystone_exceptions

from cloud import cloud as openstack_cloud
from cloud import commands
from cloud import directory
from cloud.demo import chart
from cloud.demo import outcome
from cloud.demo import peers
from cloud.demo import picture
from cloud.demo import scenarios
from cloud.demo import screen as screens
from cloud.demo import stage as stages
from cloud.openstack import layout

_DEFAULT_PORT = 18400
_HOSTS = 3
# Seconds that a database is used before an accident.
_BEFORE, _QUICK_BEFORE = 20.0, 8.0
# Timeouts of ordinary failover, in seconds from a death to the evacuation.
_TIMEOUTS = (60.0, 5.0, 0.0)
_FAILURES = (commands.CloudError, keystone_exceptions.ClientException)
_NOTE = ('times in seconds; one run on this machine, from the log of a PostgreSQL client that '
         'writes and reads every few milliseconds')


def main() -> int:
    """:return: the exit status: 1 for an error, 2 for an unexpected outcome"""
    args = _parser().parse_args()
    screen = screens.Screen()
    # SIGTERM has to run the clean-up, too, which ends the cloud's processes.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return commands.status(lambda: _run(args, screen), _FAILURES)


def _parser() -> argparse.ArgumentParser:
    data = pathlib.Path(os.environ.get('SPECREDS_DATA', '.data'))
    parser = argparse.ArgumentParser(prog='./run demo', description=(
        'A host dies and its servers are recovered; another one is only suspected, and nobody '
        'notices; for comparison, hosts die whose servers are evacuated after a timeout. Takes '
        'about a quarter of an hour.'))
    parser.add_argument('--data', type=pathlib.Path, metavar='DIR', default=data / 'demo',
                        help='data directory of its cloud, wiped before and after '
                             '(default: %(default)s)')
    parser.add_argument('--out', type=pathlib.Path, metavar='DIR', default=data / 'demo-out',
                        help='where failover.png and failover.json go (default: %(default)s)')
    parser.add_argument('--port', type=int, default=_DEFAULT_PORT,
                        help='first of the 200 ports that are used (default: %(default)s)')
    parser.add_argument('--network', choices=layout.NETWORKS, default=layout.NETWORKS[0],
                        help="what connects servers: Neutron's agents of Open vSwitch, those with "
                             'distributed routers and VXLAN, or OVN (default: %(default)s)')
    parser.add_argument('--quick', action='store_true',
                        help='less use of the databases before anything happens')
    parser.add_argument('--peer', choices=['masakari'],
                        help='also kill the host for the engine of this other project, with its '
                             'defaults and without its wait: ten minutes more')
    parser.add_argument('--keep', action='store_true', help='leave the cloud up afterwards')
    return parser


def _run(args: argparse.Namespace, screen: screens.Screen) -> int:
    with directory.alone(args.data, args.data.with_name(f'{args.data.name}-lock'), 'demo',
                         'choose another one with --data, and other ports with --port'):
        return _play(args, screen)


def _play(args: argparse.Namespace, screen: screens.Screen) -> int:
    args.out.mkdir(parents=True, exist_ok=True)
    screen.title(f'An OpenStack with {_HOSTS} compute hosts, a Ceph, and an engine')
    openstack_cloud.Cloud(args.data).wipe(screen.say)
    cloud = openstack_cloud.Cloud(args.data, port=args.port, hosts=_HOSTS, engines=1,
                                  network=args.network)
    try:
        with screen.busy('the cloud comes up'):
            cloud.up(screen.say)
        losses = cloud.losses()
        with losses.named_first(), tempfile.TemporaryDirectory(prefix='specreds-demo-') as scratch:
            outcomes = _show(cloud, pathlib.Path(scratch), screen,
                             _QUICK_BEFORE if args.quick else _BEFORE, args.peer is not None)
    except BaseException:
        cloud.down(screen.say)
        screen.say(f'the logs are in {cloud.log_dir}')
        raise
    lost = losses.found()
    _report(outcomes, args.out, screen, lost)
    if args.keep:
        with screen.busy('the engine starts again'):
            cloud.up()
        screen.say(f'the cloud stays up: {cloud.openrc()}')
    else:
        with screen.busy('the cloud is removed'):
            cloud.wipe()
    return 2 if any(accident.wrong for accident in outcomes) else 0


def _show(cloud: openstack_cloud.Cloud, scratch: pathlib.Path, screen: screens.Screen,
          before: float, peer: bool) -> list[outcome.Outcome]:
    """Run the scenarios one after the other, and return their outcomes.

    :param peer: whether Masakari recovers the servers, too
    """
    with contextlib.closing(stages.Stage(cloud, scratch, screen)) as stage:
        stage.trusted()
        screen.title('1. A host is killed. Nobody does anything but the engine')
        outcomes = [scenarios.speculative(stage, before)]
        screen.title('2. A host is only suspected: it is cut off, and its guests hang a while')
        suspicion = scenarios.suspicion(stage, before)
        screen.title('3. The same death as in 1, without an engine, for comparison')
        stage.engines(False)
        for timeout in _TIMEOUTS:
            if timeout:
                screen.say(f'the death is taken for granted after {timeout:g} s')
            else:
                screen.say('the Oracle: the death is known at once')
            outcomes.append(scenarios.timed(stage, before, timeout))
        if peer:
            screen.title('4. The same death, which Masakari is notified of at once')
            outcomes += [peers.accident(stage, before, key) for key in peers.ACCIDENTS]
    # From the longest time without service to the shortest.
    outcomes.sort(key=lambda accident: -accident.unavailable_s)
    return [*outcomes, suspicion]


def _report(outcomes: list[outcome.Outcome], out: pathlib.Path, screen: screens.Screen,
            lost: list[str]) -> None:
    """Show what the scenarios have cost.

    :param lost: what services of the cloud ended by themselves
    """
    *deaths, _ = outcomes
    for words in lost:
        screen.say(f'LOST: {words}')
    screen.title('What it has cost')
    screen.show(chart.table(outcomes))
    screen.show('')
    screen.show(chart.timeline(deaths))
    for spec in (accident for accident in deaths if accident.key.endswith('spec')
                 and accident.steps):
        screen.show(f'\n{spec.name}: the recovery of the database by the engine, since the death:')
        screen.show(chart.steps(spec))
        screen.show('Of the time without service, all but the guest itself took '
                    f'{spec.overhead_s:.2f} s.')
    picture.draw(out / 'failover.png', deaths, _NOTE)
    (out / 'failover.json').write_text(
        json.dumps([accident.facts() for accident in outcomes], indent=1) + '\n')
    screen.say(f'the picture: {out / "failover.png"}')
    for accident in outcomes:
        for words in accident.wrong:
            screen.say(f'WRONG: {accident.name}: {words}')
    if not any(accident.wrong for accident in outcomes):
        screen.say('everything was as it should be')
