# SPDX-License-Identifier: Apache-2.0
"""A DevStack of which only the configuration is real: of ``DEVSTACK_DIR``, or a stand-in."""

from collections.abc import Iterable, Mapping, Sequence
import os
import pathlib
import shlex
import subprocess
import sys
from typing import NamedTuple

from oslo_config import cfg

HERE = pathlib.Path(__file__).parent
REPOSITORY = HERE.parents[1]
STACK = ('pre-install', 'install', 'post-config', 'extra', 'test-config')

# What the plug-in, and DevStack's own functions, would change the machine with.
_PROGRAMS = ('a2dissite', 'a2enmod', 'a2ensite', 'a2query', 'apt-get', 'ceph', 'curl', 'ip',
             'mysql', 'openstack', 'ovs-vsctl', 'service', 'specreds-engine-manage',
             'specreds-status', 'sudo', 'systemctl', 'systemd-tmpfiles', 'uwsgi')
_LOCALRC = {
    'ADMIN_PASSWORD': 'secret', 'DATABASE_PASSWORD': 'secret', 'RABBIT_PASSWORD': 'secret',
    'SERVICE_PASSWORD': 'secret', 'CINDER_ENABLED_BACKENDS': 'ceph', 'CINDER_CEPH_USER': 'cinder',
    'CINDER_CEPH_POOL': 'volumes', 'CINDER_CEPH_UUID': '6f8d1a4e-0f0b-4b53-9f3c-5b2f4c3a7d10'}

Sections = Mapping[str, Mapping[str, Sequence[str]]]


class Failed(Exception):
    """A phase ended with an error; says what was printed."""


class Choices(NamedTuple):
    """Services, agent and mechanism of Neutron, and the plug-ins of Tempest."""

    services: frozenset[str]
    agent: str
    mechanism: str
    tempest_plugins: str


class Stack:
    """One node.

    :param root: an empty directory, for everything
    :param sample: the user's part of a whole ``local.conf``
    :param localrc: what else the user has there, beside passwords and a Ceph
    """

    def __init__(self, root: pathlib.Path, sample: str = '', **localrc: str) -> None:
        self.root = root
        self.etc = root / 'etc'
        self.cinder_conf = self.etc / 'cinder' / 'cinder.conf'
        self.nova_conf = self.etc / 'nova' / 'nova.conf'
        self.engine_conf = self.etc / 'specreds' / 'specreds-engine.conf'
        self.ceph_conf = self.etc / 'ceph' / 'ceph.conf'
        self.apparmor_rules = self.etc / 'apparmor' / 'libvirt-qemu'
        self.tempest_conf = self.etc / 'tempest.conf'
        programs = [root / 'bin' / name for name in _PROGRAMS]
        programs += [root / 'opt' / 'data' / 'venv' / 'bin' / 'pip',
                     root / 'opt' / 'requirements' / '.venv' / 'bin' / 'edit-constraints']
        self.apparmor_rules.parent.mkdir(parents=True)
        for program in programs:
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text((HERE / 'record.sh').read_text())
            program.chmod(0o755)
        (root / 'bin' / 'python3').symlink_to(sys.executable)
        (root / 'opt' / 'specreds').symlink_to(REPOSITORY)
        (root / 'localrc').write_text(''.join(
            f'{name}={shlex.quote(value)}\n' for name, value in {
                **_LOCALRC, 'DEST': str(root / 'opt'), 'DATA_DIR': str(root / 'opt' / 'data'),
                'CEPH_CONF_FILE': str(self.ceph_conf), 'SPECREDS_BIN_DIR': str(root / 'bin'),
                'SPECREDS_CONF_DIR': str(self.engine_conf.parent),
                'SPECREDS_APPARMOR_RULES': str(self.apparmor_rules), **localrc}.items())
            + (sample or 'enable_plugin specreds https://example.org/specreds\n'))

    def run(self, *phases: str) -> str:
        """Go through phases.

        :return: what was printed
        :raises Failed: one of them ended with an error
        """
        environment = {name: os.environ[name] for name in ('HOME', 'LANG', 'USER')
                       if name in os.environ}
        # DevStack's functions are not meant for a path that begins with a virtual environment.
        done = subprocess.run(
            ['bash', str(self._script(phases)), str(self.root), _devstack(), *phases],
            env={**environment, 'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:'
                 '/sbin:/bin'},
            cwd=self.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        if done.returncode:
            raise Failed(done.stdout)
        return done.stdout

    def _script(self, phases: Sequence[str]) -> pathlib.Path:
        """Return the script, by the name that DevStack's own script for the phases has."""
        script = self.root / ('stack.sh' if phases[0] in STACK else f'{phases[0]}.sh')
        if not script.exists():
            script.symlink_to(HERE / 'stack.sh')
        return script

    @property
    def calls(self) -> list[list[str]]:
        """Programs that were run, and with what, in order; also ``phase: NAME``."""
        return [shlex.split(line) for line in (self.root / 'record').read_text().splitlines()]

    def calls_of(self, *words: str) -> list[list[str]]:
        """Those that have all these words."""
        return [call for call in self.calls if set(words) <= set(call)]

    @property
    def choices(self) -> Choices:
        """What DevStack has been made to have."""
        services, agent, mechanism, plugins, _ = (self.root / 'choices').read_text().split('\n')
        return Choices(frozenset(services.split(',')), agent, mechanism, plugins)

    def unit(self, service: str) -> Mapping[str, Sequence[str]]:
        """What systemd is told of a service; empty if it is not known."""
        path = self.root / 'systemd' / f'devstack@{service}.service'
        return read(path)['Service'] if path.exists() else {}

    def drop_in(self, service: str) -> Sections:
        """What systemd is told of a service beside DevStack's unit; empty if nothing."""
        path = self.root / 'systemd' / f'devstack@{service}.service.d' / 'specreds.conf'
        return read(path) if path.exists() else {}

    def added(self, path: pathlib.Path) -> Sections:
        """What the plug-in has written into a file that was there before."""
        return added(read(path.with_name(f'{path.name}.before')), read(path))


def read(path: pathlib.Path) -> Sections:
    """A configuration file, with all values of each option."""
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(path), sections).parse()
    return sections


def added(before: Sections, after: Sections) -> Sections:
    """What a configuration has that another one does not have, or has otherwise."""
    sections: dict[str, dict[str, Sequence[str]]] = {}
    for section, options in after.items():
        for name, values in options.items():
            if before.get(section, {}).get(name) != values:
                sections.setdefault(section, {})[name] = values
    return sections


def values(conf: Mapping[str, Mapping[str, object]]) -> Sections:
    """A configuration of the development cloud, as it would be read from its file."""
    return {section: {name: list(value) if isinstance(value, Iterable)
                      and not isinstance(value, str) else [str(value)]
                      for name, value in options.items()}
            for section, options in conf.items()}


def _devstack() -> str:
    return os.environ.get('DEVSTACK_DIR', '')
