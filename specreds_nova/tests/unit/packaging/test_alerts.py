# SPDX-License-Identifier: Apache-2.0
"""The alerts for Prometheus: their metrics exist, the handbook explains them, and they fire."""

import json
import pathlib
import re
import shutil
import subprocess
from typing import Any

import ddt
import fixtures
import testtools
import yaml  # type: ignore[import-untyped]

from specreds_nova.engine import metrics
from specreds_nova.tests.unit.packaging import base

_RULES = base.ROOT / 'etc/prometheus/specreds.rules'
_BOARD = base.ROOT / 'etc/prometheus/specreds-dashboard.json'
# Prometheus itself makes this one.
_OTHERS = {'up'}
_WELL = ('up{job="specreds"} 1x2000', 'specreds_heartbeats_total 0+9x2000')
# By alert: the series that make it fire.
_SERIES = {
    'SpecredsNoEngine': 'up{job="specreds"} 0x2000',
    'SpecredsEngineDown': 'up{job="specreds"} 0x2000',
    'SpecredsNoHeartbeats': 'specreds_heartbeats_total 7x2000',
    'SpecredsOverload': 'specreds_overload_seconds 3x2000',
    'SpecredsMessagesRejected': 'specreds_rejected_messages_total{reason="echo"} 0+1x2000',
    'SpecredsHostHeld': 'specreds_hosts{state="held"} 1x2000',
    'SpecredsHostSuspected': 'specreds_hosts{state="suspected"} 1x2000',
    'SpecredsHostFenced': 'specreds_hosts{state="fenced"} 1x2000',
    'SpecredsSentinelSilent': 'specreds_sentinels{state="silent"} 1x2000',
    'SpecredsVoiceMissing': 'specreds_voices{state="sentinel"} 1x2000',
    'SpecredsSentinelUnleased': 'specreds_sentinels{state="unleased"} 1x2000',
    'SpecredsFalseSuspicions': 'specreds_false_suspicions_total 0+1x2000',
    'SpecredsRecoveryFailed': 'specreds_recoveries_total{outcome="failed"} 0+1x2000',
    'SpecredsServerEvacuated': 'specreds_recoveries_total{outcome="evacuated"} 0+1x2000',
    'SpecredsGuestUnready': 'specreds_unready_total 0+1x2000',
    'SpecredsRecoveryWaits': 'specreds_active_recoveries{state="queued"} 1x2000',
    'SpecredsAdoptionLate': 'specreds_active_recoveries{state="committed"} 1x2000',
    'SpecredsMergeLate': 'specreds_active_recoveries{state="merging"} 1x2000',
    'SpecredsManyBackups': 'specreds_backups_running 90x2000',
    'SpecredsNoRoom': 'specreds_servers_without_room 2x2000',
    'SpecredsNotActing': 'specreds_host_modes{mode="observe"} 9x2000',
}


def _rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(_RULES.read_text())['groups']
    return list(group['rules'])


def _selectors(expression: str) -> list[tuple[str, dict[str, str]]]:
    """Return each metric of an expression, with the values of its labels."""
    names = re.findall(r'\b(up|specreds_\w+)(\{[^}]*\})?', expression)
    return [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels))) for name, labels in names]


class AlertsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.text = metrics.Metrics().text()

    def assert_metrics_exist(self, expression: str) -> None:
        """Assert that an engine has each series that an expression names, from its start."""
        selectors = _selectors(expression)
        self.assertNotEqual([], selectors, expression)
        for name, labels in selectors:
            if name in _OTHERS:
                continue
            series = re.findall(rf'^{name}(?:_bucket)?(?:{{(.*)}})? ', self.text, re.MULTILINE)
            if f'# HELP {name.removesuffix("_bucket")} ' not in self.text:
                self.assertNotEqual([], series, name)
            for label, value in labels.items():
                self.assertIn(f'{label}="{value}"', ','.join(series), expression)

    def test_metrics_of_alerts_exist(self) -> None:
        for rule in _rules():
            self.assert_metrics_exist(rule['expr'])

    def test_metrics_of_the_dashboard_exist(self) -> None:
        panels = json.loads(_BOARD.read_text())['panels']
        for panel in panels:
            for target in panel['targets']:
                self.assert_metrics_exist(target['expr'])
        self.assertEqual(len(panels), len({panel['id'] for panel in panels}))

    def test_every_alert_has_a_severity_and_an_entry_in_the_handbook(self) -> None:
        page = (base.ROOT / 'doc/source/handbook.rst').read_text()
        explained = set(re.findall(r'^   (Specreds\w+)$', page, re.MULTILINE))
        rules = {rule['alert']: rule for rule in _rules()}
        self.assertEqual(explained, set(rules))
        self.assertEqual(set(_SERIES), set(rules))
        for name, rule in rules.items():
            self.assertIn(rule['labels']['severity'], ('critical', 'warning', 'info'))
            self.assertEqual(f'handbook.html#term-{name}', rule['annotations']['runbook'])
            self.assertTrue(rule['annotations']['summary'])


@ddt.ddt
class PromtoolTest(testtools.TestCase):
    """The alerts as Prometheus judges them."""

    def setUp(self) -> None:
        super().setUp()
        self.promtool = shutil.which('promtool')
        if self.promtool is None:
            self.skipTest('promtool is in the package prometheus of Debian')

    def check(self, series: list[str], wanted: str, samples: str) -> None:
        """Have promtool evaluate an expression after 30 hours of some series."""
        pairs = [line.rsplit(' ', 1) for line in series]
        script = {'rule_files': [str(_RULES)], 'evaluation_interval': '5m', 'tests': [{
            'interval': '1m',
            'input_series': [{'series': name, 'values': values} for name, values in pairs],
            'promql_expr_test': [{'expr': wanted, 'eval_time': '30h',
                                  'exp_samples': [{'labels': samples, 'value': 1}]}]}]}
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'test.yml')
        path.write_text(yaml.safe_dump(script))
        done = subprocess.run([str(self.promtool), 'test', 'rules', str(path)], text=True,
                              capture_output=True, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    @ddt.data(*_SERIES)
    def test_alert_fires(self, name: str) -> None:
        metric = _selectors(_SERIES[name])[0][0]
        series = [_SERIES[name], *(line for line in _WELL if not line.startswith(metric))]
        self.check(
            series, f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) > bool 0', '{}')

    def test_no_alert_fires_while_all_is_well(self) -> None:
        zeros = [re.sub(r' \S+$', ' 0x2000', line) for line in self.lines()]
        self.check([*_WELL, *zeros], 'absent(ALERTS)', '{}')

    @staticmethod
    def lines() -> list[str]:
        """Return the series of an engine at its start, but those that rise."""
        return [line for line in metrics.Metrics().text().splitlines()
                if line.startswith('specreds_') and '_created' not in line
                and not line.startswith('specreds_heartbeats_total')]
