# SPDX-License-Identifier: Apache-2.0
"""The demo's stage with a heavier load: the same accidents, and the throughput afterwards.

Before an accident the database is given accounts, so that there is something to recover, and its
volumes are flattened, so that *rbd* is a plain disk; afterwards, if asked for, it works as fast as
it can for a while.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from bench.paper import load
from cloud import commands
from cloud import guests
from cloud.demo import stage as stages

_ROOT = pathlib.Path(__file__).parents[2]
_SNAPSHOT = 'parent'
# Seconds: for the accounts, for what is left of a load, and for what Ceph has to do.
_MAKING, _MORE, _CEPH = 240.0, 90.0, 120.0


@dataclasses.dataclass(frozen=True)
class Course:
    """The throughput of a database.

    :ivar began: in seconds since the epoch
    :ivar done: when each transaction was acknowledged
    """

    began: float
    done: tuple[float, ...]
    seconds: float

    def per_second(self) -> list[int]:
        """Return the transactions of each second since the beginning."""
        counts = [0] * int(self.seconds)
        for at in self.done:
            place = int(at - self.began)
            if 0 <= place < len(counts):
                counts[place] += 1
        return counts


class Stage(stages.Stage):
    """A stage with the methods that the demo's scenarios call.

    :ivar rows: accounts that a database is given before an accident; 0 for none
    :ivar after: seconds that it works as fast as it can after one; 0 for the demo's own use
    :ivar clone: make RBD clones of the volumes as soon as the host is dead
    :ivar course: what it got done after the latest accident
    """

    rows = 0
    after = 0.0
    clone = False
    course: Course | None = None
    _dead = False
    _pair: stages.Pair | None = None

    @contextlib.contextmanager
    def servers(self, *options: str, database: stages.Database = stages.SMALL
                ) -> Iterator[stages.Pair]:
        """Boot two new servers, as the demo's stage does."""
        self._dead, self.course = False, None
        with super().servers(*options, database=database) as pair:
            self._pair = pair
            yield pair

    def use(self, pair: stages.Pair, seconds: float) -> None:
        """Run the load on the database before and after an accident."""
        if self._dead and self.after:
            self.leave(pair)
            with self.screen.busy(f'the database works as fast as it can, {self.after:g} s'):
                result = self._load(pair, self.after)
            self.course = Course(result['began'], tuple(result['done']), self.after)
            return
        if self.rows and not self._dead:
            with self.screen.busy(f'{self.rows:,} accounts are made'):
                self._load(pair, 0.0)
            with self.screen.busy('the volumes become plain disks'):
                for spec in self._volumes(pair):
                    # One that Cinder has copied from Glance is none that was cloned.
                    if 'parent' in json.loads(self._rbd('info', spec, '--format', 'json')):
                        self._rbd('flatten', '--no-progress', spec)
        super().use(pair, seconds)

    def kill(self) -> float:
        """Switch the host off; all that follows counts as unavailability."""
        event = super().kill()
        self._dead = True
        if self.clone and self._pair is not None:
            with self.screen.busy('RBD clones of the volumes are made'):
                for spec in self._volumes(self._pair):
                    self._replace(spec)
        return event

    @functools.cached_property
    def _account(self) -> pathlib.Path:
        """Return the file with the database's user; looking up the image takes a moment."""
        return guests.image('g2').with_name('image.json')

    def _load(self, pair: stages.Pair, seconds: float) -> dict[str, Any]:
        argv = [sys.executable, '-m', load.__name__, pair.database.address, '--account',
                str(self._account), '--rows', str(self.rows), '--seconds', f'{seconds:g}']
        try:
            done = subprocess.run(
                self.cloud.tenant.argv(argv), check=False, capture_output=True, text=True,
                stdin=subprocess.DEVNULL, timeout=seconds + (_MORE if seconds else _MAKING),
                env={**os.environ, 'PYTHONPATH': str(_ROOT)})
        except subprocess.TimeoutExpired:
            raise commands.CloudError('the load on the database did not end') from None
        if done.returncode:
            raise commands.CloudError('the load on the database failed: '
                                      f'{(done.stderr or done.stdout).strip()[-500:]}')
        result: dict[str, Any] = json.loads(done.stdout) if seconds else {}
        return result

    def _volumes(self, pair: stages.Pair) -> list[str]:
        """Return the images of both servers."""
        pool = self.cloud.backends[0].pool
        return [f'{pool}/volume-{volume}' for server in pair.servers
                for volume in server.volumes]

    def _replace(self, spec: str) -> None:
        """Replace an image by a clone, which the dead host's clients would otherwise delay."""
        status = json.loads(self._rbd('status', spec, '--format', 'json'))
        for watcher in status['watchers']:
            self.cloud.ceph.admin(['osd', 'blocklist', 'add', watcher['address']])
        parent = f'{spec}-{_SNAPSHOT}'
        self._rbd('snap', 'create', '--no-progress', f'{spec}@{_SNAPSHOT}')
        self._rbd('snap', 'protect', f'{spec}@{_SNAPSHOT}')
        self._rbd('rename', spec, parent)
        self._rbd('clone', f'{parent}@{_SNAPSHOT}', spec)

    def _rbd(self, *words: str) -> str:
        return commands.run(['rbd', '--conf', str(self.cloud.ceph.admin_conf), '--id', 'admin',
                             *words], timeout=_CEPH)
