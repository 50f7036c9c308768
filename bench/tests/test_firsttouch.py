# SPDX-License-Identifier: Apache-2.0
"""First-touch latencies: which kinds of disk are measured, and what they are compared with."""

import contextlib
import pathlib
from typing import Any
from unittest import mock

import fixtures
import testtools

from bench import environment
from bench import fio
from bench import firsttouch
from bench import images
from bench import variants

_MS = {variants.RBD: 4.0, variants.WRITEBACK: 1.0, variants.CLONE: 8.0, variants.SUPER: 2.0,
       variants.UNCACHED: 8.0}


class FirstTouchTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        scratch = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.env = mock.MagicMock(spec=environment.Environment, rounds=2, scratch=scratch,
                                  figures=None, progress=mock.Mock(), ceph=mock.Mock())
        self.ran: list[tuple[str, str]] = []
        self.bytes: dict[str, int] = {}
        self.dropped = scratch / 'drop_caches'
        for module, name, new in ((variants, 'opened', self.opened), (fio, 'run', self.run_jobs),
                                  (firsttouch, '_DROP_CACHES', self.dropped)):
            self.useFixture(fixtures.MockPatchObject(module, name, new))
        self.variant = ''

    @contextlib.contextmanager
    def opened(self, _env: Any, variant: str, *_refs: Any) -> Any:
        self.variant = variant
        yield mock.Mock(uri=f'nbd:{variant}')

    def run_jobs(self, jobs: list[fio.Job], _scratch: pathlib.Path) -> list[mock.Mock]:
        for job in jobs:
            self.ran.append((self.variant, job.name))
            log = pathlib.Path(str(job.options['read_iolog'])).read_text().splitlines()
            self.bytes[job.name] = sum(int(line.split()[-1]) for line in log
                                       if ' write ' in line)
        return [mock.Mock(mean_ms=lambda: _MS[self.variant], bins=lambda _kind: {})
                for _ in jobs]

    def test_backups_are_compared_with_both_kinds_of_plain_disk(self) -> None:
        figures = firsttouch.run(self.env, mock.Mock(), mock.Mock(), images.GIB)
        for key in ('4k_qd1', '4k_qd16', '64k_qd1', '256mib', '4k_qd1_cold'):
            self.assertEqual((0.5, 2.0), (figures[f'disk.first_touch_{key}.super_over_rbd'],
                                          figures[f'disk.first_touch_{key}.super_over_writeback']))
        self.assertEqual(2.0, figures['disk.first_touch_4k_qd1.clone_over_rbd'])
        self.assertEqual(256 << 20, self.bytes['large'])
        self.assertEqual(firsttouch.steps(self.env), self.env.progress.step.call_count)

    def test_caches_are_emptied_before_each_cold_run(self) -> None:
        firsttouch.run(self.env, mock.Mock(), mock.Mock(), images.GIB)
        cold = [name for _, name in self.ran].count('cold')
        self.assertEqual(9, cold)
        self.assertEqual(cold * 3, self.env.ceph.kill_daemon.call_count)
        self.assertEqual(cold, self.env.ceph.wait_clean.call_count)
        self.assertEqual('3', self.dropped.read_text())
