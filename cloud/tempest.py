# SPDX-License-Identifier: Apache-2.0
"""Tempest's tests on a cloud of their own: this project's, and OpenStack's."""

import argparse
from collections.abc import Iterator, Mapping
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from cloud import cloud as clouds
from cloud import commands
from cloud import tempest_conf
from cloud import tempest_page
from cloud import tempest_results as results
from cloud.openstack import files as private
from cloud.openstack import keystone
from cloud.openstack import layout

DEFAULT_PORT = 18400
# Where there is no Glance: what needs images carries this tag, except for one test.
EXCLUDED = r'\[.*\bimage\b.*\]|\.VolumesExtendTest\.test_volume_extend\['

_OWN = r'^tempest_plugin\.'
_QUICK = r'^tempest_plugin\.(api|rbac)\.'
_SMOKE = r'^tempest\.api\.volume\..*\[.*\bsmoke\b'
_ALL = r'^tempest\.api\.volume\.'
# One goes into the guest by SSH without asking whether that can be done ([validation]
# run_validation): for that the guests of these clouds would need an SSH server.
_SERVERS = (r'^tempest\.api\.compute\.(.*\[.*\bsmoke\b'
            r'|servers\.test_server_actions\.ServerActions'
            r'(?!V293TestJSON\.test_rebuild_volume_backed_server\[))')
_TITLES = {False: 'with the plug-in', True: 'without the plug-in'}
_HOSTS = 3
# Seconds that a test may need until it ends.
_TEST_TIMEOUT = 1500
_ROOT = pathlib.Path(__file__).parents[1]


def add(areas: 'argparse._SubParsersAction[argparse.ArgumentParser]') -> None:
    """Add the command to the command line."""
    parser = areas.add_parser(
        'tempest', help="Tempest's tests: this project's, and tests of volumes and servers",
        description="Runs this project's tests for Tempest, tests of tempest.api.volume, and of "
                    'what is done with servers in tempest.api.compute, on a cloud of their own '
                    'with compute hosts and an engine. The exit status is 1 if one fails. '
                    'results.html says what came of each; the *.subunit beside it, too.')
    parser.add_argument('--data', metavar='DIR',
                        help='directory for the cloud and the results (default: %(default)s)',
                        default=os.path.join(os.environ.get('SPECREDS_DATA', '.data'), 'tempest'))
    parser.add_argument('--port', type=int, default=DEFAULT_PORT,
                        help=f'first of the {layout.PORTS} ports that the cloud uses; ports of '
                             'its Ceph follow (default: %(default)s)')
    parser.add_argument('--cloud', metavar='DIR', type=pathlib.Path,
                        help='data directory of a cloud with compute hosts and an engine that is '
                             'up, to use instead of an own one; it is left as it is')
    parser.add_argument('--compare', action='store_true',
                        help='only tests of tempest.api.volume, on a cloud without compute '
                             'hosts, with the plug-in on and then with it off; a difference is '
                             'a failure')
    which = parser.add_mutually_exclusive_group()
    which.add_argument('--all', action='store_true',
                       help='all tests of tempest.api.volume, which takes long (default: those '
                            'with the tag smoke)')
    which.add_argument('--quick', action='store_true',
                       help="only this project's tests of its APIs, which need no servers")
    which.add_argument('regex', nargs='?', metavar='REGEX', help='the tests whose name matches')


def run(args: argparse.Namespace, progress: commands.Progress) -> int:
    """Run the tests.

    :return: the exit status
    :raises CloudError: the cloud, or Tempest, does not work
    """
    root = pathlib.Path(args.data).absolute()
    root.mkdir(parents=True, exist_ok=True)
    if args.compare:
        return _compare(args, root, progress)
    if args.cloud is not None:
        return _report(root, _run_sets(clouds.Cloud(args.cloud), root, selections(args),
                                       progress))
    clouds.Cloud(root / 'cloud').wipe(progress)
    cloud = clouds.Cloud(root / 'cloud', port=args.port, hosts=_HOSTS, engines=1)
    try:
        progress('starting a cloud with compute hosts and an engine')
        cloud.up(lambda line: progress(f'cloud: {line}'))
        runs = _run_sets(cloud, root, selections(args), progress)
    except BaseException:
        cloud.down(progress)
        raise
    status = _report(root, runs)
    # After a failure the logs are kept.
    (cloud.down if status else cloud.wipe)(progress)
    return status


def selections(args: argparse.Namespace) -> dict[str, str]:
    """The regular expressions for the tests that the command line asks for, by their titles."""
    if args.regex:
        return {'chosen': args.regex}
    if args.quick:
        return {'APIs of this project': _QUICK}
    return {'this project': _OWN, 'volumes': selection(args), 'servers': _SERVERS}


def selection(args: argparse.Namespace) -> str:
    """The regular expression for the tests of volumes that the command line asks for."""
    regex: str = args.regex or (_ALL if args.all else _SMOKE)
    return regex


def _run_sets(cloud: clouds.Cloud, root: pathlib.Path, sets: Mapping[str, str],
              progress: commands.Progress) -> list[results.Run]:
    """Run sets of tests on a cloud with compute hosts that is up.

    :param sets: regular expressions by titles
    """
    furniture = tempest_conf.furnish(cloud)
    runs = []
    with cloud.backups():
        for title, regex in sets.items():
            directory = _directory(root, title)
            runs.append(_run(directory, tempest_conf.hosts(cloud, directory, furniture), title,
                             ['--regex', regex], progress))
    return runs


def _report(root: pathlib.Path, runs: list[results.Run]) -> int:
    """Write and print the results of runs, and return the exit status."""
    (root / 'results.txt').write_text(results.report(runs))
    (root / 'results.html').write_text(tempest_page.page('Tempest', runs))
    for line in results.table(runs):
        print(line)
    for run in runs:
        for result in run.results:
            if result.status == results.FAILED:
                print(f'FAILED {result.name}: {result.reason}')
    print(f'see {root}/results.html')
    # A run in which Tempest skips everything shows nothing.
    return 1 if any(run.count(results.FAILED) or not run.count(results.PASSED)
                    for run in runs) else 0


def _compare(args: argparse.Namespace, root: pathlib.Path, progress: commands.Progress) -> int:
    """Run the tests of volumes with the plug-in and without it, and compare.

    :return: the exit status
    :raises CloudError: the cloud, or Tempest, does not work
    """
    clouds.Cloud(root / 'cloud').wipe(progress)
    runs = []
    try:
        for plain, title in _TITLES.items():
            cloud = clouds.Cloud(root / 'cloud', port=args.port, plain=plain, hosts=0)
            progress(f'starting a cloud {title}')
            cloud.up(lambda line: progress(f'cloud: {line}'))
            _pretend_network(cloud)
            directory = _directory(root, title)
            with cloud.backups():
                runs.append(_run(directory, tempest_conf.block_storage(cloud, directory), title,
                                 ['--exclude-regex', EXCLUDED, '--regex', selection(args)],
                                 progress))
    except BaseException:
        cloud.down(progress)
        raise
    different = results.differences(*runs)
    status = _report(root, runs)
    # After a failure the logs are kept.
    (cloud.down if different or status else cloud.wipe)(progress)
    for line in different:
        print(line)
    print(f'{len(different)} tests with a different result' if different else
          'the same result both ways')
    return 1 if different else status


def _pretend_network(cloud: clouds.Cloud) -> None:
    """Publish an endpoint of Neutron that has nothing, which Tempest's cleanup needs."""
    keystone.Seed(cloud.session(), cloud.settings, {}).publish(
        'network', 'no-network', f'{cloud.settings.auth_url}/no-network')


def _directory(root: pathlib.Path, title: str) -> pathlib.Path:
    directory = root / title.replace(' ', '-')
    directory.mkdir(exist_ok=True)
    return directory


def _run(directory: pathlib.Path, conf: private.Conf, title: str, words: list[str],
         progress: commands.Progress) -> results.Run:
    """Run tests on a cloud that is up.

    :param directory: for what Tempest reads and writes
    :param words: of Tempest's command line, which choose tests
    :raises CloudError: none matches, or Tempest itself failed
    """
    settings = directory / 'tempest.conf'
    private.write(settings, private.ini(conf))
    log = directory / 'tempest.out'
    began = time.monotonic()
    count = 0

    def told(result: results.Result) -> None:
        nonlocal count
        count += 1
        reason = f' ({result.reason})' if result.words else ''
        progress(f'{title}: {count:3} {result.status:7} {result.name}{reason}')

    progress(f'running the tests {title}')
    with _tempest(['run', '--config-file', str(settings), '--serial', '--subunit', *words],
                  directory, log) as process:
        assert process.stdout
        outcomes = results.read(process.stdout, directory.with_suffix('.subunit'), told)
    if not outcomes:
        raise commands.CloudError(f'Tempest ran no test that matches {words[-1]}; see {log}')
    # A failed test makes the status 1, and is reported by its name.
    if process.returncode and not any(each.status == results.FAILED for each in outcomes):
        raise commands.CloudError(
            f'Tempest ended with status {process.returncode}, and no test failed; see {log}')
    return results.Run(title, outcomes, time.monotonic() - began)


@contextlib.contextmanager
def _tempest(words: list[str], directory: pathlib.Path,
             log: pathlib.Path) -> Iterator['subprocess.Popen[bytes]']:
    """Tempest, with all that it starts, for as long as it is followed."""
    inherited = {name: value for name, value in commands.environment().items()
                 if not name.startswith('OS_')}
    with log.open('wb') as errors, subprocess.Popen(
            [str(layout.BIN / 'tempest'), *words], cwd=directory, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
            env=inherited | {'PYTHON': sys.executable, 'PYTHONPATH': str(_ROOT),
                             'OS_TEST_TIMEOUT': str(_TEST_TIMEOUT)}) as process:
        try:
            yield process
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
