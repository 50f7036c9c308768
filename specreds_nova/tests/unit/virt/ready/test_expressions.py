# SPDX-License-Identifier: Apache-2.0
"""Expressions of tenants take bounded time.

A search that backtracks would not end here within the age of the universe.
"""

import types

import hypothesis
from hypothesis import strategies
from oslo_config import cfg
import testtools

from specreds_nova import conf as specreds_conf
from specreds_nova.virt.ready import conditions
from specreds_nova.virt.ready import errors
from specreds_nova.virt.ready import expressions

_TEXT = b'a' * (32 * 1024) + b'!\n'
# Nested and overlapping repetitions: each step into one doubles the ways to match.
_REPEATED = strategies.recursive(
    strategies.sampled_from(['a', '.', r'\w', 'a?', '[a-z]', 'aa', '(a|a)', '(.|a)']),
    lambda inner: strategies.builds('({}{})'.format, inner,
                                    strategies.sampled_from(['+', '*', '{1,9}', '+?', '*?']))
    | strategies.builds('({}|{})*'.format, inner, inner),
    max_leaves=6)
_CATASTROPHIC = strategies.builds('{}{}{}'.format, strategies.sampled_from(['', '^']),
                                  _REPEATED, strategies.sampled_from(['$', 'z', '+z', '.*z$']))


class ExpressionTest(testtools.TestCase):

    @hypothesis.given(_CATASTROPHIC)
    @hypothesis.example('(a+)+$')
    @hypothesis.example('^(a|a)*$')
    @hypothesis.example('((a*)*)*z')
    @hypothesis.example('(.*){1,9}z')
    @hypothesis.settings(max_examples=30)
    def test_catastrophic_patterns_end(self, pattern: str) -> None:
        try:
            expression = expressions.Expression(pattern)
        except ValueError:
            return
        match = expression.search(_TEXT)
        self.assertTrue(match is None or match in _TEXT.decode())

    @hypothesis.given(strategies.text(max_size=300))
    def test_any_value_is_read_or_refused(self, value: str) -> None:
        specreds_conf.register(cfg.CONF)
        for key in ('specreds:ready', 'specreds:ready_timeout'):
            for text in (value, f'console:{value}', f'agent:{value}', f'delay:{value}'):
                server = types.SimpleNamespace(uuid='server', metadata={key: text},
                                               system_metadata={})
                try:
                    condition = conditions.parse(server)
                except errors.BadCondition:
                    continue
                self.assertTrue(0 <= condition.timeout <= 86400)
                self.assertTrue(len(condition.argument) <= 255)

    def test_expression_matches_within_lines(self) -> None:
        text = b'booting\nready 7\nlogin: '
        self.assertEqual('ready 7', expressions.Expression(r'^ready \d+$').search(text))
        self.assertIsNone(expressions.Expression(r'^eady').search(text))
        self.assertEqual('\ufffd', expressions.Expression('\ufffd').search(b'\xff'))

    def test_unsupported_syntax_is_named(self) -> None:
        for pattern in (r'(a)\1', '(?=a)b', '(?<!a)b', '('):
            error = self.assertRaises(ValueError, expressions.Expression, pattern)
            self.assertIn('neither back references nor lookaround', str(error))
        for pattern in ('(a?){190}a{190}z', '((a|.){1,30}){30}'):
            error = self.assertRaises(ValueError, expressions.Expression, pattern)
            self.assertIn('repeats too much', str(error))
        self.assertIn(r'\1', str(self.assertRaises(ValueError, expressions.Expression, r'(a)\1')))
