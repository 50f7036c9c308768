# SPDX-License-Identifier: Apache-2.0
"""The README: its links lead somewhere, and it stays a first page."""

import re

import testtools

from specreds_nova.tests.unit.packaging import base

_LINK = re.compile(r'\]\(([^)#]+)[^)]*\)')
_COMMAND = re.compile(r'^(\./run [a-z]+)', re.MULTILINE)
# Two screens sell it and start it; as many say what it needs, does and does not.
_MOST_LINES = 140


class ReadmeTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.page = (base.ROOT / 'README.md').read_text()

    def test_links_lead_to_files(self) -> None:
        links = _LINK.findall(self.page)
        self.assertNotEqual([], links)
        self.assertEqual([], [link for link in links if not link.startswith('http')
                              and not (base.ROOT / link).exists()])

    def test_first_screens_have_two_commands(self) -> None:
        self.assertEqual(['./run demo', './run test'], _COMMAND.findall(self.page))

    def test_results_name_each_miss(self) -> None:
        rows = [tuple(cell.strip() for cell in line.split('|')[1:-1])
                for line in (base.ROOT / 'bench/README.md').read_text().splitlines()
                if '| MISSED |' in line]
        self.assertNotEqual([], rows)
        missed = self.page.partition('**missed**')[2].partition('\n\n')[0]
        self.assertEqual(len(rows), len(missed.splitlines()) - 2)
        self.assertEqual([], [key for key, measured, *_ in rows
                              if measured.partition(' (')[0] not in missed])

    def test_readme_stays_short(self) -> None:
        self.assertLess(len(self.page.splitlines()), _MOST_LINES)
