# SPDX-License-Identifier: Apache-2.0
"""The jobs and the output of fio."""

import json
import pathlib
import tempfile
from typing import Any

import testtools

from bench import fio
from bench import writer


def output(**job: Any) -> str:
    """What fio prints for one job."""
    base = {'jobname': 'j', 'error': 0, 'job_runtime': 1500,
            'write': {'iops': 12.5, 'total_ios': 5,
                      'clat_ns': {'mean': 2e6, 'bins': {'1000': 3, '2000': 2}}},
            'read': {'iops': 0, 'total_ios': 0, 'clat_ns': {'mean': 0}}}
    return json.dumps({'jobs': [base | job]})


class FioTest(testtools.TestCase):
    """Job files and results."""

    def test_lines_before_the_json_are_skipped(self) -> None:
        result, = fio.parse('fio: connected to NBD server\n' + output())
        self.assertEqual((1.5, 12.5, 5, 2.0), (result.seconds, result.iops(), result.count(),
                                               result.mean_ms()))
        self.assertEqual({1000: 3, 2000: 2}, result.bins())
        self.assertEqual({}, result.bins('read'))

    def test_missing_result_is_an_error(self) -> None:
        self.assertRaises(fio.FioFailed, fio.parse, 'fio: cannot connect\n')

    def test_damaged_result_is_an_error(self) -> None:
        self.assertRaises(fio.FioFailed, fio.parse, output()[:-1])

    def test_error_of_a_job_is_raised(self) -> None:
        error = self.assertRaises(fio.FioFailed, fio.parse, output(error=5))
        self.assertIn('job j failed with error 5', str(error))

    def test_jobs_run_one_after_another(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch, 'jobs')
            command = fio.command([fio.Job('one', 'nbd:1', {'bs': '4k'}),
                                   fio.Job('two', 'nbd:2', {'rw': 'write'})], path)
            sections = path.read_text().split('[')[1:]
        self.assertEqual(str(path), command[-1])
        self.assertEqual(['global', 'one', 'two'],
                         [section.split(']')[0] for section in sections])
        for section, uri in zip(sections[1:], ('nbd:1', 'nbd:2'), strict=True):
            self.assertIn('stonewall\n', section)
            self.assertIn(f'uri={uri}\n', section)


class WriterLogTest(testtools.TestCase):
    """The log of a writer that runs on."""

    def test_only_writes_count(self) -> None:
        self.assertEqual([(1.0, 400.0), (1.25, 300.0)], writer.parse(
            '1000, 400, 1, 8192, 0\n1000, 7, 2, 0, 0\n1250, 300, 1, 8192, 0\n'))

    def test_rate_is_the_mean(self) -> None:
        points = [(0.25 * number, 100.0 * number) for number in range(1, 9)]
        self.assertEqual(500.0, writer.rate(points, 0.75, 1.75 - 0.25))

    def test_standstill_counts_as_zero(self) -> None:
        points = [(0.5, 400.0), (2.0, 400.0)]
        self.assertAlmostEqual(800 / 7, writer.rate(points, 0.0, 2.0))
