# SPDX-License-Identifier: Apache-2.0
"""The plug-in's tests, options and commands."""

import pathlib
import re
import sys
import unittest

import fixtures
from oslo_config import cfg
from oslo_policy import policy
import testtools

from specreds_cinder.api import policies as cinder_policies
from specreds_nova.engine import policies as engine_policies
from tempest_plugin import plugin
from tempest_plugin.common import commands
from tempest_plugin.common import personas


class PluginTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.plugin = plugin.SpecredsPlugin()

    def test_tempest_discovers_each_suite_and_no_unit_test(self) -> None:
        directory, top = self.plugin.load_tests()
        self.assertEqual(top, str(pathlib.Path(directory).parent))
        there = {path.parent.name for path in pathlib.Path(directory).rglob('test_*.py')}
        suite = unittest.TestLoader().discover(directory, top_level_dir=top)
        modules = {test.id().split('.')[1] for test in testtools.iterate_tests(suite)}
        self.assertEqual(there - {'tests'}, modules)

    def test_options_are_registered_and_listed(self) -> None:
        conf = cfg.ConfigOpts()
        for name in ('service_available', 'enforce_scope'):
            conf.register_group(cfg.OptGroup(name))
        self.plugin.register_opts(conf)
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'tempest.conf')
        path.write_text('[specreds]\ndestructive = true\nhost_kill_command = off {host}\n')
        conf(args=[], default_config_files=[str(path)])
        self.assertEqual((True, 'off {host}', None),
                         (conf.specreds.destructive, conf.specreds.host_kill_command,
                          conf.specreds.host_boot_command))
        listed = dict(self.plugin.get_opt_lists())
        self.assertEqual(set(conf.specreds), {option.dest for option in listed['specreds']})
        self.assertEqual(set(conf.service_available),
                         {option.dest for option in listed['service_available']})

    def test_nothing_is_destructive_by_default(self) -> None:
        conf = cfg.ConfigOpts()
        for name in ('service_available', 'enforce_scope'):
            conf.register_group(cfg.OptGroup(name))
        self.plugin.register_opts(conf)
        conf(args=[], default_config_files=[])
        self.assertFalse(conf.specreds.destructive)


class PersonasTest(testtools.TestCase):

    def test_matrix_has_all_rules_of_both_apis(self) -> None:
        documented = {rule.name for rule in (*cinder_policies.list_rules(),
                                             *engine_policies.list_rules())
                      if isinstance(rule, policy.DocumentedRuleDefault)}
        self.assertEqual(documented, {*personas.RULES, *personas.DETAILS})

    def test_matrix_has_each_persona(self) -> None:
        for rule, outcomes in personas.RULES.items():
            self.assertEqual(len(personas.PERSONAS), len(outcomes.split()), rule)

    def test_each_rule_is_tested(self) -> None:
        directory = pathlib.Path(personas.__file__).parents[1]
        texts = ''.join(path.read_text() for suite in ('rbac', 'scenario')
                        for path in (directory / suite).glob('*.py'))
        kinds = '|'.join({rule.partition(':')[0] for rule in personas.RULES})
        tested = set(re.findall(rf"'((?:{kinds}):[a-z_:]+)'", texts))
        tested |= {f'host:{action}' for action in ('suspect', 'clear')}
        self.assertEqual({*personas.RULES, *personas.DETAILS}, tested)


class CommandsTest(testtools.TestCase):

    def run_python(self, program: str, **values: str) -> str:
        words = f"{sys.executable} -c '{program}' {{host}}"
        return commands.run(words, **values)

    def test_values_are_one_word(self) -> None:
        printed = self.run_python('import sys; print(sys.argv[1:])', host='a b; c {d}')
        self.assertEqual("['a b; c {d}']", printed)

    def test_failure_reports_the_output(self) -> None:
        error = self.assertRaises(commands.CommandFailed, self.run_python,
                                  'import sys; sys.exit(sys.argv[1])', host='no such host')
        self.assertIn('no such host', str(error))

    def test_unknown_program_is_a_failure(self) -> None:
        self.assertRaises(commands.CommandFailed, commands.run, '/no/such/program {host}',
                          host='h')
