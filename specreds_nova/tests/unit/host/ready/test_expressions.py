# SPDX-License-Identifier: Apache-2.0
"""Expressions of tenants take bounded time.

A search that backtracks would not end here within the age of the universe.
"""

import types

import hypothesis
from hypothesis import strategies
import testtools

from specreds_nova.host.ready import conditions
from specreds_nova.host.ready import expressions
from testing import hostile_metadata


class ExpressionTest(testtools.TestCase):

    @hypothesis.given(hostile_metadata.CATASTROPHIC)
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
        match = expression.search(hostile_metadata.CONSOLE)
        self.assertTrue(match is None or match in hostile_metadata.CONSOLE.decode())

    def test_thousand_hostile_values_take_bounded_time(self) -> None:
        kinds: set[conditions.Kind] = set()

        def read(value: str) -> None:
            server = types.SimpleNamespace(uuid='server', metadata={'specreds:ready': value},
                                           system_metadata={})
            try:
                condition = conditions.parse(server)
            except conditions.BadCondition as exc:
                # What is repeated in logs and answers is bounded, too.
                self.assertTrue(len(str(exc)) < 2000)
                return
            kinds.add(condition.kind)
            self.assertTrue(len(condition.argument) <= 255)
            if condition.kind is conditions.Kind.CONSOLE:
                # RE2 takes time in proportion to the product of these two.
                compiled = expressions.Expression(condition.argument)._compiled
                self.assertTrue(compiled.programsize <= 300)
                self.assertEqual('re2', type(compiled).__module__)

        hostile_metadata.each(read)
        self.assertLessEqual({conditions.Kind.CONSOLE, conditions.Kind.DELAY}, kinds)

    @hypothesis.given(strategies.text(max_size=300))
    def test_any_value_is_read_or_refused(self, value: str) -> None:
        for key in ('specreds:ready', 'specreds:ready_timeout'):
            for text in (value, f'console:{value}', f'agent:{value}', f'delay:{value}'):
                server = types.SimpleNamespace(uuid='server', metadata={key: text},
                                               system_metadata={})
                try:
                    condition = conditions.parse(server)
                except conditions.BadCondition:
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
