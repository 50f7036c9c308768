# SPDX-License-Identifier: Apache-2.0
"""The measurements for the paper's figures, with fake disks and accidents."""

import collections
from collections.abc import Iterator, Sequence
import contextlib
import itertools
import json
import pathlib
import re
import subprocess
import threading
import types
from typing import Any
from unittest import mock

import fixtures
from matplotlib import pyplot
import psycopg2
import testtools

from bench import environment
from bench import fio
from bench import replay
from bench import trace
from bench import variants
from bench.paper import accidents
from bench.paper import disk
from bench.paper import figures as drawings
from bench.paper import load
from bench.paper import stage as stages
from cloud import commands
from cloud.demo import outcome
from cloud.demo import stage as demo
from cloud.guests.client import clock

_SLOWNESS = {variants.RBD: 2.0, variants.SUPER: 1.0, variants.CLONE: 6.0,
             variants.PROMOTED: 1.5, variants.UNCACHED: 3.0, variants.WRITEBACK: 1.5}


class DiskTest(testtools.TestCase):
    """Figures 4 and 5 on disks that take as long as they are told to."""

    def setUp(self) -> None:
        super().setUp()
        self.scratch = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.jobs: list[fio.Job] = []
        fakes: dict[str, Any] = {
            'bench.variants.opened': self._opened, 'bench.fio.run': self._fio,
            'bench.images.create': mock.MagicMock(), 'bench.images.fill': mock.MagicMock(),
            'bench.images.snapshot': mock.MagicMock(), 'rbd.RBD': mock.MagicMock()}
        for target, fake in fakes.items():
            patched = mock.patch(target, new=fake)
            patched.start()
            self.addCleanup(patched.stop)
        cluster = mock.MagicMock()
        anything: Any = mock.MagicMock()
        self.env = environment.Environment(anything, cluster, anything, anything, True, 3,
                                           self.scratch, None)
        self.steps = anything.step

    @contextlib.contextmanager
    def _opened(self, _env: object, variant: str, _plain: object, _base: object
                ) -> Iterator[types.SimpleNamespace]:
        yield types.SimpleNamespace(uri=variant)

    @contextlib.contextmanager
    def _unwritten(self, _path: object, _title: str, _note: str, panels: int = 1
                   ) -> Iterator[list[Any]]:
        yield list(pyplot.subplots(1, panels, squeeze=False)[1][0])
        pyplot.close()

    def _fio(self, jobs: Sequence[fio.Job], _scratch: object) -> list[fio.Result]:
        self.jobs += jobs
        latencies = [int(1e6 * _SLOWNESS[job.uri]) for job in jobs]
        return [fio.Result({'job_runtime': latency / 1e3, **{
            kind: {'clat_ns': {'mean': latency, 'bins': {str(latency): 99, str(9 * latency): 1}}}
            for kind in ('read', 'write')}}) for latency in latencies]

    def measure(self) -> dict[str, float]:
        recording = replay.Recording([trace.Operation(trace.WRITE, 0, 4096)], [(0, 65536)],
                                     1 << 20)
        recorded, figures = {'p100m': recording}, dict[str, float]()
        disk.run(self.env, recorded, disk.missing({}, recorded), figures.update)
        self.assertEqual([], disk.missing(figures, recorded))
        return figures

    def test_all_figures_can_be_drawn(self) -> None:
        figures = self.measure()
        # Only what is drawn matters here; to write it as an image takes long.
        with mock.patch('bench.plots.drawing') as drawing:
            drawing.side_effect = self._unwritten
            drawn = drawings.draw(figures, self.scratch)
        self.assertEqual({'figure-4-64kib', 'figure-4-4mib', 'figure-4-percentiles', 'figure-5',
                          'figure-6'}, set(drawn))

    def test_figures(self) -> None:
        figures = self.measure()
        self.assertEqual((2.0, 1.0, 6.0), tuple(
            figures[f'paper.fig4.size_48k.{name}_ms'] for name in ('rbd', 'super', 'clone')))
        self.assertEqual(figures['paper.fig4.size_4k.rbd_ms'],
                         figures['paper.fig4.depth_1.rbd_ms'])
        self.assertEqual(3, figures['paper.fig4.depth_32.clone_ms.n'])
        self.assertEqual((6.0, 54.0), (figures['paper.fig4.replay_read.p99.clone_ms'],
                                       figures['paper.fig4.replay_read.p99.9.clone_ms']))
        self.assertEqual(2.0, figures['paper.fig5.p100m.rbd_s'])
        self.assertEqual(0.5, figures['disk.replay_p100m.speculative_over_rbd'])

    def test_each_write_is_the_first_to_its_object(self) -> None:
        self.measure()
        touched: dict[str, list[int]] = {}
        for number in range(1 + 11):
            log = trace.parse_iolog((self.scratch / f'paper{number}.iolog').read_text())
            for operation in log:
                self.assertEqual(operation.offset // disk.OBJECT,
                                 (operation.offset + operation.length - 1) // disk.OBJECT)
                touched.setdefault('all', []).append(operation.offset // disk.OBJECT)
        self.assertEqual(len(set(touched['all'])), len(touched['all']))
        self.assertGreater(len(touched['all']), 1000)

    def test_number_of_steps_is_announced(self) -> None:
        self.measure()
        recorded: Any = {'p100m': None}
        self.assertEqual(disk.steps(self.env, disk.missing({}, recorded)), self.steps.call_count)

    def test_results_of_bench_disk_are_used(self) -> None:
        recorded: Any = {'p100m': None, 's100m': None}
        known = {'disk.first_touch_4k_qd1.rbd_ms': 1.0, 'disk.replay_p100m.rbd_s': 4.0,
                 'paper.fig5.p100m.rbd_s': 4.0}
        self.assertEqual([disk.FIRST_TOUCH, 's100m'], disk.missing(known, recorded))

    def test_existing_recordings_are_used(self) -> None:
        log = trace.iolog([trace.Operation(trace.WRITE, 0, 4096)])
        for name, blocks in (('pg-sf2-cwal100m-stop', '10'),
                             ('mysql-sf32-cwal300m-panic', '1' * 40_000)):
            (self.scratch / f'{name}.blktrace.fio').write_text(log)
            (self.scratch / f'{name}.omap').write_text(blocks)
        self.assertEqual(['s100m'], list(disk.recordings(self.scratch, quick=True)))
        self.assertEqual(['s100m', 'p300m'], list(disk.recordings(self.scratch, quick=False)))


def _stage() -> tuple[stages.Stage, Any]:
    cloud: Any = mock.MagicMock()
    cloud.backends = [types.SimpleNamespace(pool='volumes')]
    cloud.tenant.argv = lambda argv: ['tenant', *argv]
    with mock.patch('cloud.drill.Drill'), mock.patch('cloud.demo.recoveries.Engine'):
        return stages.Stage(cloud, pathlib.Path('/nowhere'), mock.MagicMock()), cloud


_PAIR: Any = types.SimpleNamespace(
    database=types.SimpleNamespace(address='192.0.2.7', volumes=('v1',)),
    servers=[types.SimpleNamespace(volumes=('v1',)), types.SimpleNamespace(volumes=('v2',))])


class StageTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.stage, self.cloud = _stage()
        self.ran: list[tuple[str, ...]] = []
        self.load: list[list[str]] = []
        for target, fake in (('cloud.commands.run', self._run), ('subprocess.run', self._load),
                             ('cloud.guests.image', lambda name: pathlib.Path('/nowhere', name))):
            patched = mock.patch(target, new=fake)
            patched.start()
            self.addCleanup(patched.stop)
        self.used: list[float] = []
        fakes: dict[str, Any] = {
            'use': lambda _self, _pair, seconds: self.used.append(seconds),
            'kill': lambda _self: 1000.0, 'leave': mock.MagicMock(), 'servers': self._servers}
        for name, new in fakes.items():
            patch = mock.patch.object(demo.Stage, name, new=new)
            patch.start()
            self.addCleanup(patch.stop)

    @staticmethod
    @contextlib.contextmanager
    def _servers(_stage: object, *, database: object) -> Iterator[Any]:
        del database
        yield _PAIR

    def _run(self, argv: Sequence[str], **_more: object) -> str:
        self.ran.append(tuple(argv[5:]))
        return json.dumps({'watchers': [{'address': '192.0.2.1:0/7'}],
                           **({'parent': {}} if argv[6] == 'volumes/volume-v1' else {})})

    def _load(self, argv: list[str], **_more: object) -> subprocess.CompletedProcess[str]:
        self.load.append(argv)
        said = json.dumps({'began': 5.0, 'done': [5.1, 5.2, 6.5, 99.0], 'errors': []})
        return subprocess.CompletedProcess(argv, 0, said, '')

    def test_before_an_accident(self) -> None:
        self.stage.rows = 10
        with self.stage.servers() as pair:
            self.stage.use(pair, 8.0)
        self.assertEqual([('info', 'volumes/volume-v1', '--format', 'json'),
                          ('flatten', '--no-progress', 'volumes/volume-v1'),
                          ('info', 'volumes/volume-v2', '--format', 'json')], self.ran)
        [argv] = self.load
        self.assertEqual(['192.0.2.7', '10', '0'], [argv[4], argv[8], argv[10]])
        self.assertEqual([8.0], self.used)

    def test_after_one(self) -> None:
        self.stage.after = 3.0
        with self.stage.servers() as pair:
            self.stage.use(pair, 8.0)
            self.stage.kill()
            self.stage.use(pair, 5.0)
        self.assertEqual([8.0], self.used)
        assert self.stage.course is not None
        self.assertEqual([2, 1, 0], self.stage.course.per_second())
        self.assertEqual([], self.ran)

    def test_the_next_accident_is_another_one(self) -> None:
        self.stage.after = 3.0
        with self.stage.servers() as pair:
            self.stage.kill()
            self.stage.use(pair, 5.0)
        with self.stage.servers() as pair:
            self.assertIsNone(self.stage.course)
            self.stage.use(pair, 8.0)
        self.assertEqual([8.0], self.used)

    def test_clones(self) -> None:
        self.stage.clone = True
        with self.stage.servers():
            self.assertEqual(1000.0, self.stage.kill())
        image, parent = 'volumes/volume-v1', 'volumes/volume-v1-parent'
        self.assertEqual([
            ('status', image, '--format', 'json'),
            ('snap', 'create', '--no-progress', f'{image}@parent'),
            ('snap', 'protect', f'{image}@parent'), ('rename', image, parent),
            ('clone', f'{parent}@parent', image)], self.ran[:5])
        self.assertEqual([mock.call(['osd', 'blocklist', 'add', '192.0.2.1:0/7'])] * 2,
                         self.cloud.ceph.admin.call_args_list)

    def test_a_load_that_fails(self) -> None:
        self.stage.rows = 10
        failed = subprocess.CompletedProcess(['load'], 1, '', 'error: no answer')
        with mock.patch('subprocess.run', return_value=failed), self.stage.servers() as pair:
            error = self.assertRaises(commands.CloudError, self.stage.use, pair, 8.0)
        self.assertIn('no answer', str(error))


class AccidentsTest(testtools.TestCase):

    def run_them(self, names: Sequence[str], *results: object) -> tuple[dict[str, Any], Any]:
        """Let accidents happen of which it is known what will come of them."""
        kept: dict[str, Any] = {}
        outcomes = iter(results)

        def happen(_stage: object, *_more: object) -> outcome.Outcome:
            result: Any = next(outcomes)
            if isinstance(result, Exception):
                raise result
            return outcome.Outcome('x', 'x', 0.0, outcome.Gap(0.0, result))
        with mock.patch('bench.paper.stage.Stage') as made, contextlib.ExitStack() as patched:
            made.return_value.course = None
            for name in ('speculative', 'suspicion', 'timed'):
                patched.enter_context(mock.patch(f'cloud.demo.scenarios.{name}', happen))
            cloud: Any = mock.MagicMock()
            accidents.run(cloud, mock.MagicMock(), names, True, kept.update,
                          (commands.CloudError,))
            return kept, made.return_value

    def test_all(self) -> None:
        figures, stage = self.run_them(list(accidents.ACCIDENTS), *map(float, range(1, 7)))
        self.assertEqual(
            {'spec': 1.0, 'suspicion': 2.0, 'oracle': 3.0, 'clone': 4.0, 'reds5': 5.0,
             'reds60': 6.0},
            {name: figures[f'paper.accident.{name}.database_s'] for name in accidents.ACCIDENTS})
        # The engines are stopped once.
        self.assertEqual([mock.call(False)], stage.engines.call_args_list)

    def test_failed_accident_keeps_the_others(self) -> None:
        figures, _ = self.run_them(['reds5', 'reds60'], commands.CloudError('too slow'), 65.0)
        self.assertEqual('too slow', figures['paper.failed.reds5'])
        self.assertEqual(65.0, figures['paper.accident.reds60.database_s'])
        self.assertIn('paper.cost.reds5_s', figures)


class LoadTest(testtools.TestCase):
    """The load, on a database that only listens."""

    def setUp(self) -> None:
        super().setUp()
        self.statements: list[str] = []
        self.cursor = mock.MagicMock()
        self.cursor.execute.side_effect = self._execute
        self.cursor.fetchone.return_value = (41,)
        connection = mock.MagicMock()
        connection.cursor.return_value.__enter__.return_value = self.cursor
        patched = mock.patch('psycopg2.connect', return_value=connection)
        patched.start()
        self.addCleanup(patched.stop)
        self.account = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'image.json')
        self.account.write_text(json.dumps({'user': 'u', 'password': 'p', 'database': 'd',
                                            'port': 5432, 'ready': 'x'}))

    def _execute(self, statement: str, values: tuple[object, ...]) -> None:
        self.statements.append(statement % tuple(map(repr, values)))

    def run_it(self, *words: str) -> tuple[int, str]:
        with mock.patch('builtins.print') as said:
            status = load.main(['192.0.2.7', '--account', str(self.account), *words])
        return status, said.call_args.args[0] if said.called else ''

    def test_accounts_are_created(self) -> None:
        self.assertEqual((0, ''), self.run_it('--rows', '12000'))
        self.assertEqual(['branches', 'tellers', 'accounts', 'accounts', 'accounts'],
                         [statement.split("'")[1] for statement in self.statements])
        self.assertIn('generate_series(10001, 12000)', self.statements[-1])

    def test_transactions(self) -> None:
        # A second passes whenever a terminal looks at its clock: twice a transaction.
        clocks = collections.defaultdict[threading.Thread, Iterator[int]](itertools.count)
        with mock.patch.object(clock, 'now',
                               lambda: next(clocks[threading.current_thread()])):
            status, said = self.run_it('--rows', '100', '--seconds', '20')
        answer = json.loads(said)
        self.assertEqual((0, []), (status, answer['errors']))
        self.assertEqual(sorted([*range(2, 21, 2)] * load.TERMINALS), answer['done'])
        made = ' '.join(statement for statement in self.statements if 'UPDATE' in statement)
        self.assertEqual(
            [(str(terminal), str(number)) for terminal in range(load.TERMINALS)
             for number in range(42, 52)],
            sorted(re.findall(r"'history (\d+)', (\d+),", made)))

    def test_failed_transaction_is_reported(self) -> None:
        self.cursor.execute.side_effect = psycopg2.OperationalError('gone')
        status, said = self.run_it('--rows', '100', '--seconds', '0.02')
        self.assertEqual((1, ['gone'] * load.TERMINALS),
                         (status, json.loads(said)['errors']))
