# SPDX-License-Identifier: Apache-2.0
"""The paper's figures: its formula, the peers' arithmetic, and the report."""

import argparse
import contextlib
import io
import json
import pathlib
from typing import Any
from unittest import mock

import fixtures
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import testtools

from bench import failover
from bench import report
from bench.falsepositives import model
from bench.paper import accidents
from bench.paper import cli
from bench.paper import figures as drawings
from bench.paper import formula
from bench.paper import options
from bench.paper import page
from bench.paper import peers
from bench.paper import results
from bench.paper import stage
from cloud import commands
from cloud.demo import outcome
from cloud.demo import recoveries

_SECONDS = st.floats(0.01, 1e3)
_EVENT = 1000.0


def _outcome(key: str, seconds: float, web: float, wrong: tuple[str, ...] = ()
             ) -> outcome.Outcome:
    return outcome.Outcome(
        key, key, _EVENT, outcome.Gap(_EVENT, _EVENT + seconds), web_s=web, wrong=wrong,
        phases=((outcome.Phase('detect', 0.0, 0.7), outcome.Phase('race', 0.7, seconds))
                if key == 'spec' else ()),
        steps=((recoveries.Step('merge', _EVENT + seconds + 3, _EVENT + seconds + 9, 'e1'),)
               if key == 'spec' else ()))


_OUTCOMES = (_outcome('reds60', 90.0, 75.0), _outcome('reds5', 36.0, 21.0),
             _outcome('oracle', 30.0, 15.0), _outcome('spec', 28.0, 14.0),
             _outcome('clone', 40.0, 17.0), _outcome('suspicion', 9.0, 8.0))


def _measured() -> dict[str, Any]:
    """All that a run writes, with figures that are easy to add up."""
    known: dict[str, Any] = {'environment.cores': 2, 'paper.cost.disk_s': 400.0}
    for death in _OUTCOMES:
        begun = _EVENT + death.unavailable_s
        course = stage.Course(begun, tuple(begun + n / 10 for n in range(50)), 5.0)
        known |= accidents.facts(death.key, death, course if death.key in (
            'spec', 'oracle', 'clone') else None)
    for kind, factor in (('rbd', 1.0), ('super', 0.5), ('clone', 3.0)):
        for size in (4, 8, 16, 32, 48, 64):
            known[f'paper.fig4.size_{size}k.{kind}_ms'] = factor
            if size != 48:
                known[f'disk.first_touch_{size}k_qd1.{kind}_ms'] = factor
        for depth in (1, 2, 4, 8, 16, 32):
            known[f'paper.fig4.depth_{depth}.{kind}_ms'] = factor
            known[f'disk.first_touch_4k_qd{depth}.{kind}_ms'] = factor
        for percent in ('80', '90', '95', '99', '99.9', '99.99'):
            known[f'paper.fig4.replay_write.p{percent}.{kind}_ms'] = factor
        for name, seconds in (('p100m', 4.0), ('s100m', 0.5)):
            known[f'paper.fig5.{name}.{kind}_s'] = seconds * factor
    known |= {'failover.spec_s': 22.9, 'failover.masakari_s': 318.0, 'failover.masakari0_s': 59.5}
    return known


class FormulaTest(testtools.TestCase):

    def test_peers_of_a_benchmark_are_beside_the_engine(self) -> None:
        self.assertEqual({formula.SPEC: [22.9, None], formula.MASAKARI_AT_ONCE: [59.5, None],
                          formula.MASAKARI: [318.0, None]}, formula.beside_peers(_measured()))

    def test_peers_of_the_demo_are_beside_the_engine_of_the_demo(self) -> None:
        figures = accidents.facts('masakari0', _outcome('masakari0', 60.0, 50.0)) | {
            'failover.spec_s': 1.0}
        self.assertEqual({}, formula.beside_peers(figures))
        figures |= accidents.facts('spec', _OUTCOMES[3])
        self.assertEqual({formula.SPEC: [28.0, 14.0], formula.MASAKARI_AT_ONCE: [60.0, 50.0]},
                         formula.beside_peers(figures))

    def test_by_hand(self) -> None:
        bars = formula.bars(formula.Recovery(30.0, 32.0, 50.0), formula.Recovery(3.0, 3.5, 4.0))
        self.assertEqual({
            formula.REDS: [90.0, 63.0, 35.0, 35.0, 8.0],
            formula.CLONE: [50.0, 4.0, 50.0, 10.0, 4.0],
            formula.SPEC: [32.0, 3.5, 32.0, 10.0, 3.5],
            formula.ORACLE: [30.0, 3.0, 30.0, 10.0, 3.0]}, bars)

    @settings(max_examples=40)
    @given(_SECONDS, _SECONDS, _SECONDS)
    def test_disk_as_fast_as_the_plain_one_equals_the_oracle(self, long: float, short: float,
                                                             clone: float) -> None:
        bars = formula.bars(formula.Recovery(long, long, clone),
                            formula.Recovery(short, short, None))
        self.assertEqual(bars[formula.ORACLE], bars[formula.SPEC])
        self.assertNotIn(formula.CLONE, bars)
        for reds, oracle in zip(bars[formula.REDS][:3], bars[formula.ORACLE][:3], strict=True):
            self.assertGreater(reds, oracle)

    def test_measured(self) -> None:
        bars = formula.measured(_measured())
        self.assertEqual({
            formula.REDS: [90.0, 75.0, 36.0, 36.0, 21.0],
            formula.CLONE: [40.0, 17.0, 40.0, 9.0, 17.0],
            formula.SPEC: [28.0, 14.0, 28.0, 9.0, 14.0],
            formula.ORACLE: [30.0, 15.0, 30.0, 9.0, 15.0]}, bars)

    def test_missing_measurement_is_left_open(self) -> None:
        bars = formula.measured({'paper.accident.reds5.database_s': 36.0})
        self.assertEqual({formula.REDS: [None, None, 36.0, 36.0, None]}, bars)
        self.assertIsNone(formula.recoveries({}))
        self.assertIsNone(formula.replayed({}))

    def test_recovery_excludes_the_time_of_the_engine(self) -> None:
        estimates = formula.recoveries(_measured())
        assert estimates is not None
        self.assertEqual((30.0, 40.0), (estimates[0].rbd, estimates[0].clone))
        self.assertAlmostEqual(28.0 - 0.7, estimates[0].super)
        self.assertAlmostEqual(14.0 - 0.7, estimates[1].super)

    def test_the_longest_and_the_shortest_replay(self) -> None:
        self.assertEqual((formula.Recovery(4.0, 2.0, 12.0), formula.Recovery(0.5, 0.25, 1.5)),
                         formula.replayed(_measured()))


class PeersTest(testtools.TestCase):

    def test_sums(self) -> None:
        masakari = next(peer for peer in peers.PEERS if 'Masakari' in peer.name)
        self.assertEqual((182.2, 246.6), (masakari.least, masakari.most))
        instance_ha = next(peer for peer in peers.PEERS if 'Instance HA' in peer.name)
        self.assertEqual((20.0, 52.5, 105.0),
                         (instance_ha.least, instance_ha.mean, instance_ha.most))

    def test_each_wait_is_in_order_and_has_a_source(self) -> None:
        for wait in (wait for peer in peers.PEERS for wait in peer.waits):
            self.assertTrue(0 <= wait.least <= wait.mean <= wait.most, wait.what)
            self.assertTrue(wait.source, wait.what)

    def test_speculative_recovery_is_the_measured_one(self) -> None:
        self.assertIsNone(peers.ours({}))
        peer = peers.ours({'paper.accident.spec.detect_s': 0.7,
                           'paper.accident.spec.super_s': 0.25})
        assert peer is not None
        self.assertEqual((0.95, 2), (peer.mean, len(peer.waits)))


class FactsTest(testtools.TestCase):

    def test_failed_round_is_no_measurement(self) -> None:
        figures = accidents.facts('spec', _outcome('spec', 1.0, 1.0, ('two guests', 'lost')))
        self.assertEqual({'paper.failed.spec': 'two guests; lost'}, figures)

    def test_times_count_from_the_beginning_of_the_load(self) -> None:
        figures = _measured()
        self.assertEqual([10, 10, 10, 10, 10], figures['paper.accident.spec.per_second'])
        self.assertEqual(10.0, figures['paper.accident.spec.throughput'])
        self.assertEqual([3.0, 9.0], figures['paper.accident.spec.merge'])


class ReportTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.scratch = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        small = model.sample('paper', 5)
        patched = mock.patch('bench.falsepositives.model.sample', return_value=small)
        patched.start()
        self.addCleanup(patched.stop)

    def file(self, name: str, content: object) -> pathlib.Path:
        path = self.scratch / name
        path.write_text(json.dumps(content))
        return path

    def run_it(self, *words: str) -> tuple[int, dict[str, Any]]:
        parser = argparse.ArgumentParser()
        options.add_arguments(parser, self.scratch, 17800, None)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            # There may be recordings beside the checkout: none of these.
            status = cli.run(parser.parse_args([*words, '--traces', str(self.scratch)]),
                             (commands.CloudError,))
        return status, json.loads((self.scratch / 'paper' / 'paper.json').read_text())

    def test_missing_figures_are_not_drawn(self) -> None:
        self.assertEqual({}, drawings.draw({}, self.scratch))

    def test_page_names_what_is_missing(self) -> None:
        path = self.scratch / 'paper.html'
        page.write(path, {'paper.failed.clone': 'no <clone>'}, {}, 'the table')
        text = path.read_text()
        self.assertIn('clone: no &lt;clone&gt;', text)
        self.assertIn('wait_period_after_service_update', text)
        self.assertIn('the table', text)
        self.assertEqual(8, text.count('>Not measured.<'))

    def test_known_figure_is_not_measured_again(self) -> None:
        known = self.file('known.json', _measured())
        with mock.patch('bench.environment.cluster') as cluster, \
                mock.patch('bench.environment.cloud') as cloud:
            status, figures = self.run_it('--from', str(known))
        self.assertFalse(cluster.called or cloud.called)
        self.assertEqual(0, status)
        self.assertEqual(90.0, figures['paper.accident.reds60.database_s'])
        self.assertEqual(1 + len(drawings.DRAWN), (
            self.scratch / 'paper' / 'paper.html').read_text().count('<img'))

    def test_only_what_is_missing_is_measured(self) -> None:
        known = {key: value for key, value in _measured().items() if 'reds' not in key}
        known['paper.failed.reds5'] = 'from an earlier run'
        with mock.patch('bench.environment.cloud'), mock.patch('bench.paper.cli.write'), \
                mock.patch('bench.paper.accidents.run') as run:
            self.run_it('--quick', '--from', str(self.file('known.json', known)))
        self.assertEqual(['reds5', 'reds60'], run.call_args.args[2])

    def test_failed_part_keeps_the_others(self) -> None:
        with mock.patch('bench.environment.cluster', side_effect=commands.CloudError('no OSD')), \
                mock.patch('bench.environment.cloud'), mock.patch('bench.paper.cli.write'), \
                mock.patch('bench.paper.accidents.run') as run:
            run.side_effect = lambda *arguments: arguments[4](
                {'paper.accident.oracle.database_s': 1.0})
            status, figures = self.run_it('--quick')
        self.assertEqual(1, status)
        self.assertEqual('no OSD', figures['paper.failed.disk'])
        self.assertEqual(1.0, figures['paper.accident.oracle.database_s'])

    def test_results_of_the_demo_are_used(self) -> None:
        demo = self.file('failover.json', [death.facts() for death in _OUTCOMES])
        figures = results.load([demo])
        self.assertEqual(formula.measured(_measured()), formula.measured(figures))
        self.assertEqual(0.7, figures['paper.accident.spec.overhead_s'])
        # It has not watched the throughput afterwards.
        self.assertEqual(['spec', 'oracle', 'clone'], accidents.missing(figures))

    def test_peers_of_other_runs_are_shown(self) -> None:
        known = self.file('known.json', {key: value for key, value in _measured().items()
                                         if not key.startswith('failover.')})
        deaths = [_outcome('spec', 20.0, 5.0), _outcome('masakari', 300.0, 290.0),
                  _outcome('masakari0', 60.0, 50.0)]
        of_bench = self.scratch / 'bench.json'
        report.write(of_bench, failover.peer_figures(deaths))
        of_demo = self.file('failover.json', [death.facts() for death in deaths])
        for name, path, short in (('bench', of_bench, '–'), ('demo', of_demo, '290')):
            _, figures = self.run_it('--from', str(known), '--from', str(path))
            bars = formula.beside_peers(figures)
            self.assertEqual(300.0, bars[formula.MASAKARI][0], name)
            self.assertEqual(60.0, bars[formula.MASAKARI_AT_ONCE][0], name)
            self.assertEqual(20.0, bars[formula.SPEC][0], name)
            text = (self.scratch / 'paper' / 'paper.html').read_text()
            row = (f'<tr><td>{formula.MASAKARI}</td><td class="n">300</td>'
                   f'<td class="n">{short}</td></tr>')
            self.assertEqual(1, text.count(row), name)

    def test_errors_of_the_demo_are_named(self) -> None:
        demo = self.file('failover.json', [_outcome('spec', 1.0, 1.0, ('x',)).facts()])
        self.assertEqual({'paper.failed.spec': 'x'}, results.load([demo]))

    def test_other_files_are_refused(self) -> None:
        for name, content in (('a', 'text'), ('b', {'nodots': 1}), ('c', [{'key': 'spec'}]),
                              ('d', [1])):
            self.assertRaises(results.BadResults, results.load, [self.file(name, content)])
        self.assertRaises(results.BadResults, results.load, [self.scratch / 'none'])
