# SPDX-License-Identifier: Apache-2.0
"""The command line of `./run matrix`."""

import argparse
import datetime
import os
import pathlib
import time

from cloud import commands
from cloud.matrix import jail
from cloud.matrix import platforms
from cloud.matrix import results
from cloud.matrix import root as roots
from cloud.matrix import suites

_DESCRIPTION = f"""\
Run this project's tests on other distributions.

A platform is one of {', '.join(platforms.PLATFORMS)}. Its root is a directory that debootstrap
fills from the archive that apt on this machine uses (--mirror names another one). In it is a clone
of this checkout, at its last commit, where README's own commands run; they install what they need
there, not here. Roots share this machine's network, processors and kernel. What is mounted for a
root is gone with the command that needed it, even if that was killed.
"""
_EPILOG = """\
examples:
  ./run matrix up debian-13                   about a minute; less once it is cached
  ./run matrix test debian-13 functional      about a quarter of an hour
  ./run matrix test --all                     each suite on each platform: hours
  ./run matrix test --all functional          one suite on each platform
  ./run matrix shell debian-13 ./run ceph up  a command in the clone, or a shell without one
  ./run matrix status                         what was measured so far
  ./run matrix wipe debian-13                 keeps results and logs
"""


def parser(data: str) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    :param data: the directory of the project's data
    """
    top = argparse.ArgumentParser(prog='./run matrix', description=_DESCRIPTION, epilog=_EPILOG,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument('--data', metavar='DIR', type=pathlib.Path, help='(default: %(default)s)',
                     default=pathlib.Path(data, 'matrix'))
    actions = top.add_subparsers(dest='action', required=True)
    up = actions.add_parser('up', help='make a root')
    test = actions.add_parser('test', help='make a root if need be, and run suites of tests in it')
    for action in (up, test):
        action.add_argument('--mirror', metavar='URL', help='archive to take packages from')
    up.add_argument('--setup', action='store_true',
                    help='install in the root what the project needs, as its first command there '
                         'would do')
    test.add_argument('--all', action='store_true',
                      help='on every platform whose packages this machine can get, one after the '
                           'other; the exit status is 0 if no test failed on those')
    test.add_argument('platform', nargs='?', metavar='PLATFORM', help='not with --all')
    test.add_argument('suite', nargs='*', metavar='SUITE',
                      help=f'{", ".join(suites.COMMANDS)} (default: all of them)')
    shell = actions.add_parser('shell', help='run a shell or a command in a root')
    wipe = actions.add_parser('wipe', help='remove a root')
    for action in (up, shell, wipe):
        action.add_argument('platform', choices=platforms.PLATFORMS, metavar='PLATFORM')
    shell.add_argument('command', nargs=argparse.REMAINDER)
    wipe.add_argument('--cache', action='store_true', help='and what it is made of again')
    status = actions.add_parser('status', help='list the roots and what was measured')
    status.add_argument('--record', type=pathlib.Path, metavar='FILE',
                        help='add what was measured to a file (JSON), and write the table of the '
                             'file beside it (CSV), as the documentation includes it')
    return top


def run(args: argparse.Namespace, progress: commands.Progress) -> int:
    """Run the command of the command line.

    :return: the exit status
    :raises CloudError: the command failed
    """
    if args.action == 'status':
        return _status(args)
    if args.action == 'test':
        return _test(args, progress)
    root = roots.Root(args.data, platforms.PLATFORMS[args.platform])
    if args.action == 'up':
        root.make(args.mirror, progress)
        root.check_out(progress)
        if args.setup:
            root.install(progress)
        progress(f'{args.platform} is up: {root.path}')
        return 0
    if args.action == 'wipe':
        root.wipe(args.cache)
        progress(f'{args.platform} is wiped')
        return 0
    if not root.exists:
        raise commands.CloudError(f'there is no root of {args.platform}: ./run matrix up')
    return jail.shell(root.path, roots.in_checkout(args.command or ['bash', '-i']))


def _test(args: argparse.Namespace, progress: commands.Progress) -> int:
    chosen, names = _chosen(args)
    unreachable, broken = [], []
    measured = []
    for name in chosen:
        root = roots.Root(args.data, platforms.PLATFORMS[name])
        try:
            root.make(args.mirror, progress)
            measured.append(_measure(root, names or list(suites.COMMANDS), progress))
        except commands.CloudError as exc:
            if not args.all:
                raise
            progress(str(exc))
            # Nothing about this project follows from packages that cannot be had.
            if isinstance(exc, platforms.Unreachable):
                unreachable.append(name)
            else:
                broken.append(name)
    print(results.table(_measured(args.data)))
    for name in unreachable:
        print(f'{name}: not tested, its packages cannot be had here')
    for name in broken:
        print(f'{name}: FAILED, not tested to the end: see above')
    return 0 if measured and all(measured) and not broken else 1


def _chosen(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the platforms and the suites that the command line names."""
    names = [args.platform, *args.suite] if args.platform else []
    chosen = list(platforms.PLATFORMS) if args.all else names[:1]
    if not chosen or (args.all and set(names) & set(chosen)):
        raise commands.CloudError('name a platform, or give --all')
    if unknown := set(chosen) - set(platforms.PLATFORMS):
        raise commands.CloudError(f'no platform: {", ".join(unknown)}; there are '
                                  f'{", ".join(platforms.PLATFORMS)}')
    names = names if args.all else names[1:]
    if unknown := set(names) - set(suites.COMMANDS):
        raise commands.CloudError(f'no suite: {", ".join(sorted(unknown))}; there are '
                                  f'{", ".join(suites.COMMANDS)}')
    return chosen, names


def _measure(root: roots.Root, names: list[str], progress: commands.Progress) -> bool:
    """Run suites in a root, and record the result of each as soon as it has ended.

    :return: whether all succeeded
    """
    commit = root.check_out(progress)
    succeeded = True
    for name in names:
        log = root.logs / f'{name}.log'
        log.unlink(missing_ok=True)
        progress(f'{root.platform.name}: {name}; its output is in {log}')
        start = time.monotonic()
        argv = ['./run', *suites.arguments(name, os.environ)]
        status = jail.run(root.path, roots.in_checkout(argv), log)
        output = log.read_text(errors='replace')
        outcome = suites.outcome(status, output, time.monotonic() - start)
        progress(f'{root.platform.name}: {name}: {outcome}')
        if not outcome.ok:
            succeeded = False
            print(suites.ending(output))
        measurement = results.Measurement(outcome, commit, _today())
        results.save([results.Result(root.platform.name, _versions(root), {name: measurement})],
                     root.results)
    return succeeded


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _versions(root: roots.Root) -> dict[str, str]:
    return results.versions(jail.read(root.path, [
        'dpkg-query', '-W', '-f', r'${Package} ${Version}\n']))


def _places(data: pathlib.Path) -> list[roots.Root]:
    return [roots.Root(data, platform) for platform in platforms.PLATFORMS.values()]


def _measured(data: pathlib.Path) -> list[results.Result]:
    return [result for root in _places(data) for result in results.load(root.results)]


def _status(args: argparse.Namespace) -> int:
    for root in _places(args.data):
        print(f'{root.platform.name:14}{root.path if root.exists else "no root"}')
    measured = _measured(args.data)
    if measured:
        print(f'\n{results.table(measured)}')
    if args.record:
        results.record(measured, args.record)
    return 0
