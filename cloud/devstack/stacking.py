# SPDX-License-Identifier: Apache-2.0
"""DevStack itself in the container: its user, its configuration, and stack.sh."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import threading
import time

from cloud import commands
from cloud import guests
from cloud.devstack import container as containers
from cloud.devstack import layout
from cloud.devstack import local_conf
from cloud.devstack import repositories

_PERIOD_SECONDS = 1.0
_MINUTES = 60.0
_TIMEOUT = 10 * _MINUTES
# Lines of stack.sh's output that an error quotes.
_QUOTED = 15
_KEY = re.compile(r'^rbd_secret_uuid\s*=\s*(\S+)', re.MULTILINE)


class Stacking:
    """DevStack in a container that runs."""

    def __init__(self, files: layout.Layout, container: containers.Container) -> None:
        self._files = files
        self._container = container

    @property
    def done(self) -> bool:
        """Whether stack.sh has succeeded."""
        return self._files.stacked.exists()

    def prepare(self, nodes: Sequence[str], repos: repositories.Repositories, key: str,
                progress: commands.Progress) -> None:
        """Make DevStack's user, its checkout and its configuration.

        :param nodes: addresses of all nodes
        :param repos: what DevStack clones
        :param key: libvirt's name, on the first node, for the key to the volumes
        :raises CloudError: something cannot be had
        """
        addresses = repos.addresses()
        if not self._files.inside(layout.DEVSTACK / 'stack.sh').exists():
            progress(f"making DevStack's user and checkout on {self._files.name}")
            self._check_out(addresses.get('devstack', f'{repositories.DEVELOPERS}/devstack'),
                            nodes[self._files.index])
        if repos.from_packages and self._files.index == 0:
            copy = self._files.inside(local_conf.IMAGE)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(guests.image('g1', progress), copy)
        conf = self._files.inside(layout.DEVSTACK / 'local.conf')
        conf.write_text(local_conf.text(self._files.index, nodes, addresses,
                                        repos.from_packages, key, self._files.choices.network))
        self._container.run(['chown', '-R', 'stack:', str(layout.DEVSTACK)])

    @property
    def key(self) -> str:
        """libvirt's name for the key to the volumes.

        :raises CloudError: Nova has none
        """
        conf = self._files.inside(layout.NOVA_CONF)
        names = _KEY.findall(conf.read_text())
        if not names:
            raise commands.CloudError(f'{conf} has no rbd_secret_uuid')
        return str(names[0])

    def _check_out(self, address: str, host: str) -> None:
        fresh = '/opt/devstack'
        self._container.run(['rm', '-rf', fresh])
        self._container.run(['git', 'clone', '-q', address, fresh], _TIMEOUT)
        self._container.run(['env', f'HOST_IP={host}', 'bash',
                             f'{fresh}/tools/create-stack-user.sh'], _TIMEOUT)
        self._container.run(['mv', '-T', fresh, str(layout.DEVSTACK)])

    def run(self, progress: commands.Progress,
            before: Callable[[], None] = lambda: None) -> None:
        """Run stack.sh, after unstack.sh if an earlier run did not succeed.

        :param before: is called right before stack.sh, since unstack.sh removes files
        :raises CloudError: it failed
        """
        scripts = ['unstack.sh', 'stack.sh'] if self._files.begun.exists() else ['stack.sh']
        self._files.begun.touch()
        self._files.stack_log.unlink(missing_ok=True)
        began = time.monotonic()
        for script in scripts:
            if script == 'stack.sh':
                before()
            progress(f'{script} runs on {self._files.name}; its output is in '
                     f'{self._files.stack_log}')
            with self._steps(progress):
                status = self._run(script)
            # What unstack.sh does not find, stack.sh makes.
            if status and script == 'stack.sh':
                raise commands.CloudError(
                    f'stack.sh ended with {status}; see {self._files.stack_log}, which ends:\n'
                    + end_of(self._files.stack_log))
        seconds = round(time.monotonic() - began)
        self._files.stacked.write_text(json.dumps({'seconds': seconds}) + '\n')
        progress(f'stack.sh succeeded after {seconds // 60} min {seconds % 60} s:')
        for line in end_of(self._files.stack_log).splitlines():
            progress(line)

    def _run(self, script: str) -> int:
        with self._files.stack_log.open('ab') as output:
            return subprocess.run(self._container.as_stack(f'cd devstack && ./{script}'),
                                  stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=output).returncode

    @contextlib.contextmanager
    def _steps(self, progress: commands.Progress) -> Iterator[None]:
        """Show the steps of a script while it runs."""
        summary = Summary(self._files.inside(layout.STACK_LOG).parent)
        ended = threading.Event()

        def follow() -> None:
            while not ended.wait(_PERIOD_SECONDS):
                for step in summary.steps():
                    progress(f'stack.sh: {step}')

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


class Summary:
    """The steps that stack.sh writes down as it begins them.

    :param directory: of its logs
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._former = set(self._files())
        self._count = 0

    def _files(self) -> list[pathlib.Path]:
        return [path for path in self._directory.glob('*.summary.*') if not path.is_symlink()]

    def steps(self) -> list[str]:
        """Return the steps that began since the last call."""
        texts = [path.read_text(errors='replace')
                 for path in sorted(set(self._files()) - self._former)]
        # What follows the last newline is still being written.
        lines = ''.join(texts).split('\n')[:-1]
        added = lines[self._count:]
        self._count = len(lines)
        return [line.partition(' | ')[2].strip() or line for line in added if line.strip()]


def end_of(log: pathlib.Path) -> str:
    """Return the last lines of a log that are not empty."""
    lines = [line for line in log.read_text(errors='replace').splitlines() if line.strip()]
    return '\n'.join(lines[-_QUOTED:])
