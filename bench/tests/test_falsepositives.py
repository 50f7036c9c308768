# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of false positives, its traces and its samples."""

import argparse
import contextlib
import io
import json
import math
import pathlib

import fixtures
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import testtools

from bench.falsepositives import analysis
from bench.falsepositives import cli
from bench.falsepositives import model
from bench.falsepositives import options
from bench.falsepositives import trace as traces

_SECONDS = st.floats(0, 1e4, allow_nan=False)
_LENGTHS = st.lists(st.one_of(_SECONDS, st.just(math.inf)), max_size=30)
_SLACK = 1e-6
_quickly = settings(max_examples=40)


def _trace(lengths: list[float]) -> traces.Trace:
    return traces.Trace('t', tuple(traces.Silence(f'h{number}', float(number), length)
                                   for number, length in enumerate(lengths)))


def _recovery(plain: float = 30.0, speculative: float | None = None, detect: float = 1.0,
              disturbance: float = 0.0) -> analysis.Recovery:
    return analysis.Recovery(plain, plain if speculative is None else speculative, detect,
                             disturbance)


class TimeoutTest(testtools.TestCase):

    def test_small_trace_is_counted(self) -> None:
        result = analysis.timeout(_trace([2.0, 10.0, 20.0, math.inf]), 10.0, _recovery(30.0))
        self.assertEqual((2, 1, 0.5), (result.acted, result.false, result.false_rate))
        self.assertEqual(2.0 + 10.0 + 2 * 40.0, result.unavailable)

    def test_rate_without_recoveries_is_none(self) -> None:
        self.assertIsNone(analysis.timeout(_trace([2.0]), 10.0, _recovery()).false_rate)

    @_quickly
    @given(_LENGTHS, _SECONDS, _SECONDS)
    def test_sum_over_single_silences(self, lengths: list[float], seconds: float,
                                       plain: float) -> None:
        result = analysis.timeout(_trace(lengths), seconds, _recovery(plain))
        self.assertAlmostEqual(
            sum(length if length <= seconds else seconds + plain for length in lengths),
            result.unavailable, delta=_SLACK)
        self.assertEqual(sum(length > seconds for length in lengths), result.acted)

    @_quickly
    @given(_LENGTHS, _SECONDS, _SECONDS)
    def test_longer_timeout_is_wrong_less_often(self, lengths: list[float], first: float,
                                                      other: float) -> None:
        short, long = (analysis.timeout(_trace(lengths), seconds, _recovery())
                       for seconds in sorted((first, other)))
        self.assertLessEqual(long.false, short.false)
        if long.false_rate is not None and short.false_rate is not None:
            self.assertLessEqual(long.false_rate, short.false_rate)

    @_quickly
    @given(st.integers(1, 30), _SECONDS, _SECONDS)
    def test_each_second_of_a_dead_host_counts(
            self, dead: int, seconds: float, more: float) -> None:
        trace = _trace([math.inf] * dead)
        before = analysis.timeout(trace, seconds, _recovery()).unavailable
        after = analysis.timeout(trace, seconds + more, _recovery()).unavailable
        self.assertAlmostEqual(dead * more, after - before, delta=_SLACK)

    @_quickly
    @given(_LENGTHS, _SECONDS, _SECONDS)
    def test_no_timeout_beats_the_best_one(self, lengths: list[float], seconds: float,
                                                plain: float) -> None:
        trace, recovery = _trace(lengths), _recovery(plain)
        best = analysis.best_timeout(trace, recovery)
        self.assertLessEqual(analysis.timeout(trace, best, recovery).unavailable,
                             analysis.timeout(trace, seconds, recovery).unavailable + _SLACK)


class SpeculationTest(testtools.TestCase):

    def test_small_trace_is_counted(self) -> None:
        # Not noticed, in vain, promoted though it lives, promoted.
        trace = _trace([0.5, 10.0, 50.0, math.inf])
        result = analysis.speculation(trace, _recovery(30.0, 20.0, 1.0, disturbance=0.25))
        self.assertEqual((3, 2, 1, 1),
                         (result.suspicions, result.acted, result.false, result.vain))
        self.assertEqual(0.5 + 10.25 + 2 * 21.0, result.unavailable)
        self.assertEqual(9.0 + 2 * 20.0, result.backup_seconds)

    @_quickly
    @given(_LENGTHS, _SECONDS, _SECONDS, _SECONDS, st.floats(0, 5))
    def test_sum_over_single_silences(self, lengths: list[float], detect: float,
                                       speculative: float, plain: float,
                                       disturbance: float) -> None:
        result = analysis.speculation(_trace(lengths),
                                      _recovery(plain, speculative, detect, disturbance))
        ready = detect + speculative
        self.assertAlmostEqual(sum(
            length if length <= detect else length + disturbance if length <= ready else ready
            for length in lengths), result.unavailable, delta=_SLACK)

    @_quickly
    @given(_LENGTHS, _SECONDS, _SECONDS, _SECONDS, st.floats(0, 5))
    def test_speculation_loses_at_most_the_disturbance(
            self, lengths: list[float], detect: float, more: float, plain: float,
            disturbance: float) -> None:
        trace, recovery = _trace(lengths), _recovery(plain, None, detect, disturbance)
        speculative = analysis.speculation(trace, recovery)
        timed = analysis.timeout(trace, detect + more, recovery)
        self.assertLessEqual(speculative.unavailable - speculative.vain * disturbance,
                             timed.unavailable + _SLACK)

    @_quickly
    @given(_LENGTHS, _SECONDS, _SECONDS, _SECONDS, _SECONDS)
    def test_no_policy_beats_the_oracle(self, lengths: list[float], detect: float,
                                              seconds: float, plain: float,
                                              slower: float) -> None:
        trace, recovery = _trace(lengths), _recovery(plain, plain + slower, detect)
        oracle = analysis.oracle(trace, recovery).unavailable
        for other in (analysis.speculation(trace, recovery),
                      analysis.timeout(trace, seconds, recovery)):
            self.assertLessEqual(oracle, other.unavailable + _SLACK)

    @_quickly
    @given(_LENGTHS, _SECONDS)
    def test_speculation_is_as_often_wrong_as_a_timeout_of_the_same_length(
            self, lengths: list[float], speculative: float) -> None:
        trace, recovery = _trace(lengths), _recovery(30.0, speculative, 1.0)
        self.assertEqual(analysis.timeout(trace, 1.0 + speculative, recovery).false,
                         analysis.speculation(trace, recovery).false)


class TraceTest(testtools.TestCase):

    @_quickly
    @given(_LENGTHS)
    def test_dumped_trace_is_parsed_unchanged(self, lengths: list[float]) -> None:
        trace = traces.Trace('t', _trace(lengths).silences, 10.0, 36.5)
        self.assertEqual(trace, traces.parse(traces.dump(trace), 't'))

    def test_comments_have_hosts_and_days(self) -> None:
        trace = traces.parse('# by hand\n# hosts: 10\n# days: 36.525\nhost,began,seconds,outcome\n'
                             '\nh1, 5, 2.5, returned\nh2,6,,dead\n', 't')
        self.assertAlmostEqual(1.0, trace.host_years or 0.0)
        self.assertEqual((1, [2.5]), (trace.dead, trace.returned))

    def test_malformed_line_is_named(self) -> None:
        head = 'host,began,seconds,outcome\n'
        for text, words in (
                ('', 'first line'), ('h1,5,2,returned\n', 'first line'),
                (f'{head}h1,5,2\n', 't line 2: there are 3 fields'),
                (f'{head}h1,5,2,lost\n', "outcome 'lost'"),
                (f'{head}h1,5,,returned\n', "seconds: '' is no number"),
                (f'{head}h1,x,1,dead\n', "began: 'x'"), (f'{head}h1,nan,1,dead\n', 'no number'),
                (f'{head}h1,5,-1,returned\n', 'negative'),
                (f'# days: many\n{head}', "line 1: days: 'many'")):
            error = self.assertRaises(traces.BadTrace, traces.parse, text, 't')
            self.assertIn(words, str(error))


class ModelTest(testtools.TestCase):

    def test_same_seed_gives_the_same_trace(self) -> None:
        first, again = (model.sample('even', 5, 30.0, 7) for _ in range(2))
        self.assertEqual(first, again)
        self.assertNotEqual(first.silences, model.sample('even', 5, 30.0, 8).silences)

    def test_sample_of_the_paper_has_its_false_rate(self) -> None:
        trace = model.sample('paper', 150)
        rate = analysis.timeout(trace, 10.0, _recovery()).false_rate
        assert rate is not None
        self.assertAlmostEqual(0.9, rate, delta=0.02)


class CommandTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.scratch = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def run_it(self, *words: str) -> tuple[int, str]:
        parser = argparse.ArgumentParser()
        options.add_arguments(parser, self.scratch / 'figures')
        with contextlib.redirect_stdout(io.StringIO()) as shown, \
                contextlib.redirect_stderr(shown):
            status = cli.run(parser.parse_args(words))
        return status, shown.getvalue()

    def test_sample_is_analysed_from_its_file(self) -> None:
        file, first, other = (self.scratch / name for name in ('t.csv', 'one', 'other'))
        status, shown = self.run_it('--sample', 'even', '--hosts', '20', '--write', str(file),
                                    '--json', str(first), '--timeouts', '5,60')
        self.assertEqual(0, status)
        self.assertIn('timeout 60 s', shown)
        self.assertTrue((self.scratch / 'figures' / 'falsepositives.png').exists())
        self.run_it(str(file), '--json', str(other), '--timeouts', '60,5')
        self.assertEqual(first.read_text(), other.read_text())
        figures = json.loads(first.read_text())
        self.assertGreater(figures['falsepositives.timeout_5.false_rate'],
                           figures['falsepositives.timeout_60.false_rate'])

    def test_missing_file_is_an_error(self) -> None:
        status, shown = self.run_it(str(self.scratch / 'none.csv'))
        self.assertEqual(1, status)
        self.assertIn('error:', shown)
