# SPDX-License-Identifier: Apache-2.0
"""OpenStack's own tests of block storage (Tempest), with the plug-in and without it."""

import argparse
from collections.abc import Iterator
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from cloud import commands
from cloud import tempest_results as results
from cloud.openstack import cloud as clouds
from cloud.openstack import files as private
from cloud.openstack import keystone
from cloud.openstack import layout

DEFAULT_PORT = 18400
# There is no Glance: what needs images carries this tag, except for one test.
EXCLUDED = r'\[.*\bimage\b.*\]|\.VolumesExtendTest\.test_volume_extend\['

_SMOKE = r'^tempest\.api\.volume\..*\[.*\bsmoke\b'
_ALL = r'^tempest\.api\.volume\.'
_TITLES = {False: 'with the plug-in', True: 'without the plug-in'}
# Seconds that a volume may need until it is there, and a test until it ends.
_BUILD_TIMEOUT = 90
_TEST_TIMEOUT = 600


def add(areas: 'argparse._SubParsersAction[argparse.ArgumentParser]') -> None:
    """Add the command to the command line."""
    parser = areas.add_parser(
        'tempest', help='the tests that OpenStack has for block storage, plug-in on and off',
        description='Runs tests of tempest.api.volume on a cloud of their own, with the plug-in '
                    'on and then with it off, and compares. The exit status is 1 if one fails, '
                    'or if there is a difference.')
    parser.add_argument('--data', metavar='DIR',
                        help='directory for the cloud and the results (default: %(default)s)',
                        default=os.path.join(os.environ.get('SPECREDS_DATA', '.data'), 'tempest'))
    parser.add_argument('--port', type=int, default=DEFAULT_PORT,
                        help=f'first of the {layout.PORTS} ports that the cloud uses; those of '
                             'its Ceph follow (default: %(default)s)')
    which = parser.add_mutually_exclusive_group()
    which.add_argument('--all', action='store_true',
                       help='all tests of tempest.api.volume, which takes long (default: those '
                            'with the tag smoke)')
    which.add_argument('regex', nargs='?', metavar='REGEX', help='the tests whose name matches')


def run(args: argparse.Namespace, progress: commands.Progress) -> int:
    """Run the tests both ways and compare.

    :return: the exit status
    :raises CloudError: the cloud, or Tempest, does not work
    """
    root = pathlib.Path(args.data).absolute()
    root.mkdir(parents=True, exist_ok=True)
    cloud = clouds.Cloud(root / 'cloud')
    cloud.wipe(progress)
    regex = selection(args)
    runs = []
    try:
        for plain, title in _TITLES.items():
            cloud = clouds.Cloud(root / 'cloud', port=args.port, plain=plain, hosts=0)
            progress(f'starting a cloud {title}')
            cloud.up(lambda line: progress(f'cloud: {line}'))
            _pretend_network(cloud)
            runs.append(_run(cloud, root, title, regex, progress))
    except BaseException:
        cloud.down(progress)
        raise
    (root / 'results.txt').write_text(results.report(runs))
    different = results.differences(*runs)
    good = not different and not any(run.count(results.FAILED) for run in runs)
    # After a failure the logs are kept.
    (cloud.wipe if good else cloud.down)(progress)
    for line in (*results.table(runs), *different):
        print(line)
    print('the same result both ways' if not different else
          f'{len(different)} tests with a different result', f'; see {root}/results.txt', sep='')
    return 0 if good else 1


def selection(args: argparse.Namespace) -> str:
    """The regular expression for the tests that the command line asks for."""
    regex: str = args.regex or (_ALL if args.all else _SMOKE)
    return regex


def _pretend_network(cloud: clouds.Cloud) -> None:
    """Give Neutron an address where nothing is found, which is enough for Tempest to tidy up."""
    keystone.Seed(cloud.session(), cloud.settings, {}).publish(
        'network', 'no-network', f'{cloud.settings.auth_url}/no-network')


def conf(cloud: clouds.Cloud, directory: pathlib.Path) -> private.Conf:
    """Everything in `tempest.conf`.

    :param directory: for what Tempest writes
    """
    admin = cloud.environment('admin')
    return {
        'DEFAULT': {'log_file': directory / 'tempest.log'},
        'oslo_concurrency': {'lock_path': directory / 'lock'},
        'auth': {
            'admin_username': admin['OS_USERNAME'],
            'admin_password': admin['OS_PASSWORD'],
            'admin_project_name': admin['OS_PROJECT_NAME'],
            'admin_domain_name': 'Default',
            # Each class of tests has projects and users of its own.
            'use_dynamic_credentials': 'true',
            'create_isolated_networks': 'false',
        },
        'identity': {'uri_v3': admin['OS_AUTH_URL'], 'auth_version': 'v3',
                     'region': layout.REGION},
        # Glance and Neutron are not there, but tests that use neither insist on them.
        'service_available': {'cinder': 'true', 'glance': 'true', 'neutron': 'true',
                              'nova': 'false', 'swift': 'false', 'horizon': 'false'},
        'volume': {
            'volume_type': cloud.backends[0].name,
            'backend_names': ','.join(backend.name for backend in cloud.backends),
            'storage_protocol': 'ceph',
            'manage_snapshot_ref': 'source-name,snapshot-%s',
            'min_microversion': '3.0',
            'max_microversion': 'latest',
            'build_timeout': _BUILD_TIMEOUT,
        },
        'volume-feature-enabled': {
            'multi_backend': 'true' if len(cloud.backends) > 1 else 'false',
            'manage_volume': 'true', 'manage_snapshot': 'true',
            # There is no cinder-backup.
            'backup': 'false',
        },
        'validation': {'run_validation': 'false'},
    }


def _run(cloud: clouds.Cloud, root: pathlib.Path, title: str, regex: str,
         progress: commands.Progress) -> results.Run:
    """Run the tests on a cloud that is up.

    :raises CloudError: none matches, or Tempest itself failed
    """
    name = title.replace(' ', '-')
    directory = root / name
    directory.mkdir(exist_ok=True)
    settings = directory / 'tempest.conf'
    private.write(settings, private.ini(conf(cloud, directory)))
    log = directory / 'tempest.out'
    began = time.monotonic()
    count = 0

    def told(result: results.Result) -> None:
        nonlocal count
        count += 1
        reason = f' ({result.reason})' if result.words else ''
        progress(f'{title}: {count:3} {result.status:7} {result.name}{reason}')

    progress(f'running the tests {title}')
    with _tempest(['run', '--config-file', str(settings), '--serial', '--subunit',
                   '--exclude-regex', EXCLUDED, '--regex', regex], directory, log) as process:
        assert process.stdout
        found = results.read(process.stdout, root / f'{name}.subunit', told)
    if not found:
        raise commands.CloudError(f'Tempest ran no test that matches {regex}; see {log}')
    return results.Run(title, found, time.monotonic() - began)


@contextlib.contextmanager
def _tempest(words: list[str], directory: pathlib.Path,
             log: pathlib.Path) -> Iterator['subprocess.Popen[bytes]']:
    """Tempest, with all that it starts, for as long as it is followed."""
    inherited = {name: value for name, value in commands.environment().items()
                 if not name.startswith('OS_')}
    with log.open('wb') as errors, subprocess.Popen(
            [str(layout.BIN / 'tempest'), *words], cwd=directory, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
            env=inherited | {'PYTHON': sys.executable,
                             'OS_TEST_TIMEOUT': str(_TEST_TIMEOUT)}) as process:
        try:
            yield process
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
