# SPDX-License-Identifier: Apache-2.0
"""The table of figures and bars."""

import json
import pathlib
import re
import tempfile

import testtools

from bench import report

# A key in a table, and the number of the table's columns.
_KEY, _CELLS = re.compile(r'`([^`]+)`'), 4
_LOW, _HIGH = 'super.4tib_over_1gib', 'collapse.sweep_objects_per_s'


class ReportTest(testtools.TestCase):
    """What is shown and written."""

    def test_keys_are_unique(self) -> None:
        keys = [bar.key for bar in report.BARS]
        self.assertEqual(sorted(set(keys)), sorted(keys))

    def test_value_at_the_bar_is_good(self) -> None:
        self.assertEqual([], report.missed({_LOW: 1.2, _HIGH: 100_000}))

    def test_bar_is_missed_above_or_below(self) -> None:
        self.assertEqual([_LOW, _HIGH], report.missed({_LOW: 1.21, _HIGH: 49_999}))

    def test_bars_are_those_of_the_readme(self) -> None:
        readme = pathlib.Path(report.__file__).with_name('README.md').read_text()
        promised = dict[str, str]()
        for line in readme.splitlines():
            cells = [cell.strip() for cell in line.strip('|').split('|')]
            keys = _KEY.findall(cells[0])
            if len(cells) != _CELLS or not keys:
                continue
            bars = [bar.strip() for bar in cells[3].split(',')] if len(keys) > 1 else [cells[3]]
            if len(bars) == len(keys):
                promised |= {key: bar for key, bar in zip(keys, bars, strict=True) if bar}
        self.assertIn('scale.rack.started_cpu_s', promised)
        limits = {bar.key: bar for bar in report.BARS if bar.limit != '-'}
        self.assertEqual(set(), {key for key in promised if '{' not in key} - limits.keys())

    def test_table_says_whether_a_bar_is_met(self) -> None:
        table = report.table({_LOW: 1.5, f'{_LOW}.low': 1.4, f'{_LOW}.high': 1.6,
                              f'{_LOW}.n': 10}, ['super'])
        line = next(line for line in table.splitlines() if _LOW in line)
        self.assertIn('1.4…1.6 n=10', line)
        self.assertIn('≤ 1.2', line)
        self.assertTrue(line.endswith('NO'), line)

    def test_table_names_what_was_not_measured(self) -> None:
        self.assertIn('not measured', report.table({}, ['merge']))

    def test_table_leaves_out_other_benchmarks(self) -> None:
        self.assertNotIn('collapse.', report.table({}, ['merge']))

    def test_details_show_the_spread_once(self) -> None:
        details = report.details({'disk.x': 1.0, 'disk.x.low': 0.5, 'disk.x.high': 2.0,
                                  'disk.x.n': 3, 'merge.y': 1.0}, 'disk')
        self.assertIn('0.5…2 n=3', details)
        self.assertNotIn('disk.x.low', details)
        self.assertNotIn('merge.y', details)

    def test_json_is_one_flat_object(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch, 'out.json')
            report.write(path, {'b': 1.5, 'a': 'text'})
            self.assertEqual({'a': 'text', 'b': 1.5}, json.loads(path.read_text()))
