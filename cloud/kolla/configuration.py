# SPDX-License-Identifier: Apache-2.0
"""The configuration that kolla-ansible's roles write with the files of ``deploy/kolla``."""

from collections.abc import Iterator
import getpass
import grp
import json
import os
import pathlib
import shutil
import sys

import yaml  # type: ignore[import-untyped]

from cloud import commands
from specreds_nova.status import cinder
from specreds_nova.status import engine
from specreds_nova.status import files
from specreds_nova.status import nova

_HERE = pathlib.Path(__file__).parent
_PASSWORDS = ('specreds_database_password', 'specreds_keystone_password',
              'specreds_voice_password')
# Modules that need containers: each checks its arguments as before, and does nothing.
_STUBS = {
    'kolla_container': ('generate_module', "changed=module.params['name'].startswith('specreds')"),
    'kolla_toolbox': ('create_ansible_module', 'changed=False, resources=[]'),
}
# It imports D-Bus.
_WORKER = 'from ansible.module_utils.kolla_container_worker import ContainerWorker'
_STUB = """
def main():
    module = {factory}()
    module.exit_json({result})


if __name__ == '__main__':
    main()
"""
# What runs programs in containers: it does nothing.
_ENGINE = 'bin/docker'
# A module of a collection that kolla-ansible names and this play does not run.
_FIREWALLD = 'collections/ansible_collections/ansible/posix/plugins/modules/firewalld.py'
_CEPH_CONF = '[global]\nmon_host = 192.0.2.1\n'
_KEYRING = '[client.cinder]\nkey = AQBlbXB0eQAAABAAAAAAAAAAAAAAAAAAAAAAAA==\n'
_PLAYING = 1800.0
_OPTIONS = ('specreds_nova.engine', 'keystonemiddleware.auth_token', 'oslo.log',
            'oslo.messaging', 'oslo.concurrency', 'oslo.middleware')
_CONTAINER = '/var/lib/kolla/'


def write(venv: pathlib.Path, sources: pathlib.Path, work: pathlib.Path) -> pathlib.Path:
    """Have kolla-ansible write the configuration of one host that is controller and compute host.

    :param venv: virtual environment with kolla-ansible
    :param sources: ``deploy/kolla``
    :param work: directory for everything
    :return: the directory with a directory for each container
    """
    shutil.rmtree(work, ignore_errors=True)
    share = venv / 'share' / 'kolla-ansible'
    ansible, custom, node = work / 'ansible', work / 'config', work / 'node'
    shutil.copytree(share / 'ansible', ansible)
    shutil.copytree(sources / 'ansible', ansible, dirs_exist_ok=True)
    shutil.copytree(sources / 'config', custom)
    shutil.copy(_HERE / 'check.yml', ansible)
    _stub(ansible, work)
    for service in ('nova', 'cinder/cinder-volume'):
        (custom / service).mkdir(parents=True, exist_ok=True)
        (custom / service / 'ceph.conf').write_text(_CEPH_CONF)
        (custom / service / 'ceph.client.cinder.keyring').write_text(_KEYRING)
    # The role of the load balancer makes these.
    for place in ('haproxy/services.d', 'proxysql/users', 'proxysql/rules'):
        (node / place).mkdir(parents=True)
    passwords = yaml.safe_load((share / 'etc_examples/kolla/passwords.yml').read_text())
    variables = {
        **{name: value or 'secret' for name, value in passwords.items()},
        **dict.fromkeys(_PASSWORDS, 'secret'),
        **yaml.safe_load((_HERE / 'globals.yml').read_text()),
        'node_config': str(work), 'node_config_directory': str(node),
        'config_owner_user': getpass.getuser(),
        'config_owner_group': grp.getgrgid(os.getgid()).gr_name,
        'ansible_python_interpreter': str(venv / 'bin' / 'python'),
    }
    (work / 'variables.json').write_text(json.dumps(variables))
    commands.run(
        [str(venv / 'bin' / 'ansible-playbook'), '-i', str(ansible / 'inventory' / 'all-in-one'),
         '-e', f'@{work / "variables.json"}', str(ansible / 'check.yml')],
        _PLAYING, {'ANSIBLE_HOME': str(work / 'home'), 'LC_ALL': 'C.UTF-8',
                   'PATH': f'{(work / _ENGINE).parent}:{os.environ["PATH"]}',
                   'ANSIBLE_COLLECTIONS_PATH': str(work / 'collections'),
                   'ANSIBLE_DISPLAY_SKIPPED_HOSTS': 'false', 'ANSIBLE_PIPELINING': 'true'})
    return node


def _stub(ansible: pathlib.Path, work: pathlib.Path) -> None:
    for name, (factory, result) in _STUBS.items():
        module = ansible / 'library' / f'{name}.py'
        spec = module.read_text().partition('\ndef main():')[0].replace(_WORKER, '')
        module.write_text(spec + _STUB.format(factory=factory, result=result))
    engine = work / _ENGINE
    engine.parent.mkdir()
    engine.write_text('#!/bin/sh\n')
    engine.chmod(0o755)
    firewalld = work / _FIREWALLD
    firewalld.parent.mkdir(parents=True)
    firewalld.touch()


def faults(node: pathlib.Path) -> Iterator[str]:
    """Yield what does not fit in the configuration that :func:`write` has written."""
    volume = files.read([str(node / 'cinder-volume' / 'cinder.conf')])
    compute = files.read([str(node / 'nova-compute' / 'nova.conf')])
    ours = str(node / 'specreds-engine' / 'specreds-engine.conf')
    if not cinder.backends(volume):
        yield f'{volume}: no back end has the driver'
    if not nova.in_use(compute):
        yield f'{compute}: nova-compute does not run with the driver'
    for finding in (*cinder.settings(volume), *engine.settings(files.read([ours]), compute)):
        yield finding.text
    if compute.get('DEFAULT', 'transport_url') != files.read([ours]).get(
            'DEFAULT', 'transport_url'):
        yield f'{ours}: the broker is not the broker of nova-compute'
    for service in ('specreds-engine', 'specreds-api', 'specreds-sentinel'):
        yield from missing_sources(node, service)
    for name, words in (('haproxy/services.d/specreds-api.cfg', ':8790'),
                        ('proxysql/users/specreds.yaml', 'username: "specreds"'),
                        ('proxysql/rules/specreds.yaml', 'schemaname: "specreds"'),
                        ('prometheus.yml', ':9180'),
                        ('specreds-engine/specreds-engine.conf', ':5410'),
                        ('nova-compute/nova.conf', 'qemu+tcp://'),
                        ('nova-compute/auth.conf', 'authname=nova')):
        if words not in (node / name).read_text():
            yield f'{node / name} has no {words}'
    try:
        commands.run([str(pathlib.Path(sys.executable).parent / 'oslo-config-validator'),
                      *(f'--namespace={name}' for name in _OPTIONS), '--input-file', ours])
    except commands.CloudError as exc:
        errors = [line for line in str(exc).splitlines() if line.startswith('ERROR')]
        yield f'{ours}: {"; ".join(errors) or exc}'


def missing_sources(node: pathlib.Path, service: str) -> Iterator[str]:
    """Yield the files that the start of a container would copy, and that are not there."""
    wanted = json.loads((node / service / 'config.json').read_text())['config_files']
    for each in wanted:
        source = each['source'].removeprefix(_CONTAINER)
        place, _, name = source.partition('/')
        if place == 'config_files':
            place = service
        if not each.get('optional') and not list((node / place).glob(name)):
            yield f'{service}: there is no {node / place / name}'
