# SPDX-License-Identifier: Apache-2.0
"""The tenant client's command line: events as JSON lines on standard output, a summary last."""

import argparse
import contextlib
import functools
import json
import pathlib
import signal
import sys
import threading

from cloud.guests.client import callers
from cloud.guests.client import clock
from cloud.guests.client import database
from cloud.guests.client import pinger
from cloud.guests.client import workload


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='python -m cloud.guests.client', description=__doc__)
    actions = parser.add_subparsers(dest='action', required=True)
    server = argparse.ArgumentParser(add_help=False)
    server.add_argument('address')
    server.add_argument('--account', type=pathlib.Path, required=True, metavar='FILE',
                        help='the image.json of guest G2, which has the password')
    used = argparse.ArgumentParser(add_help=False, parents=[server])
    used.add_argument('--log', type=pathlib.Path, required=True, metavar='FILE',
                        help='the acknowledged transactions; it is appended to')
    used.add_argument('--client', default='tenant', help='name of the client (%(default)s)')
    used.add_argument('--payload', type=int, default=100, metavar='CHARACTERS',
                        help='what a transaction writes (%(default)s)')
    used.add_argument('--timeout', type=float, default=None, metavar='SECONDS',
                        help='for an answer (run: 0.5, verify: 60)')
    timed = argparse.ArgumentParser(add_help=False)
    timed.add_argument('--seconds', type=float, help='how long (default: until SIGTERM or ^C)')
    run = actions.add_parser('run', parents=[used, timed],
                             help='write and read all the time')
    run.add_argument('--interval', type=float, default=0.005, metavar='SECONDS',
                     help='from one transaction to the next (%(default)s)')
    actions.add_parser('verify', parents=[used],
                       help='find out whether anything acknowledged is missing; exit status 2 '
                            'if so')
    actions.add_parser('call', parents=[server, timed],
                       help='users who come one after the other and wait to be served')
    ping = actions.add_parser('ping', parents=[timed], help='who answers, to the millisecond')
    ping.add_argument('address')
    ping.add_argument('--kind', choices=('icmp', 'arp', 'who'), default='icmp')
    ping.add_argument('--interval', type=float, default=0.02, metavar='SECONDS')
    return parser


def _tell(event: str, more: object) -> None:
    # One write a line: another process may read them as they come.
    sys.stdout.write(json.dumps({'at': round(clock.now(), 6), 'event': event, 'more': more})
                     + '\n')
    sys.stdout.flush()


def _stopping(seconds: float | None) -> threading.Event:
    """Return an event that is set when the time is up or a signal arrives."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if seconds is not None:
        timer = threading.Timer(seconds, stop.set)
        timer.daemon = True
        timer.start()
    return stop


def _options(args: argparse.Namespace) -> workload.Options:
    return workload.Options(
        address=args.address, account=database.Account.read(args.account), client=args.client,
        log=args.log, payload=args.payload, interval_s=getattr(args, 'interval', 0.0),
        timeout_s=args.timeout or 0.5)


def _run(args: argparse.Namespace) -> int:
    work = workload.Workload(_options(args), _tell)
    try:
        work.run(_stopping(args.seconds))
    except workload.Corrupt as exc:
        _tell('corrupt', {'error': str(exc)})
        return 2
    finally:
        _tell('summary', work.record.summary())
    return 0


def _verify(args: argparse.Namespace) -> int:
    try:
        differences = workload.verify(_options(args), args.timeout or 60.0)
    except database.Error as exc:
        _tell('failed', {'error': str(exc).strip()})
        return 1
    _tell('verified', differences)
    return 2 if differences['missing'] or differences['wrong'] else 0


def _call(args: argparse.Namespace) -> int:
    account = database.Account.read(args.account)
    callers.Callers(functools.partial(database.call, args.address, account), _tell).run(
        _stopping(args.seconds))
    return 0


def _ping(args: argparse.Namespace) -> int:
    with contextlib.ExitStack() as stack:
        probe = stack.enter_context({
            'icmp': lambda: pinger.icmp(args.address),
            'arp': lambda: pinger.arp(args.address),
            'who': lambda: pinger.who(args.address)}[args.kind]())
        prober = pinger.Pinger(probe, args.interval, _tell)
        prober.run(_stopping(args.seconds))
    _tell('summary', {'asked': prober.asked, 'talkers': prober.talkers, 'doubles': prober.doubles,
                      **prober.record.summary()})
    return 0


def main() -> int:
    """:return: the exit status: 1 if the server does not answer, 2 if it has lost something"""
    args = _parser().parse_args()
    return {'run': _run, 'verify': _verify, 'call': _call, 'ping': _ping}[args.action](args)


if __name__ == '__main__':
    sys.exit(main())
