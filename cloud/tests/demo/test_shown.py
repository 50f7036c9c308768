# SPDX-License-Identifier: Apache-2.0
"""The output of the demo: table, picture and progress."""

import io
import pathlib
import threading

import fixtures
import testtools

from cloud.demo import chart
from cloud.demo import outcome
from cloud.demo import picture
from cloud.demo import recoveries
from cloud.demo import screen

_DEATH = outcome.Outcome(
    'reds60', 'REDS, 60 s', 1000.0, outcome.Gap(1000.0, 1080.0), web_s=75.0, done=(999.0, 1080.0),
    phases=(outcome.Phase('timeout', 0.0, 60.0), outcome.Phase('evacuate', 60.0, 70.0),
            outcome.Phase('race', 70.0, 80.0)))
_SPEC = outcome.Outcome(
    'spec', 'SpecREDS', 2000.0, outcome.Gap(2000.0, 2008.0), done=(1999.0, 2008.0), lost=2,
    wrong=('2 acknowledged transactions are lost',),
    phases=(outcome.Phase('detect', 0.0, 1.0), outcome.Phase('race', 1.0, 8.0)),
    steps=(recoveries.Step('super', 2001.0, None, 'e1'),
           recoveries.Step('race', 2001.5, 2008.0, 'e1')))


class ChartTest(testtools.TestCase):

    def test_table(self) -> None:
        lines = chart.table([_DEATH, _SPEC]).splitlines()
        self.assertEqual(4, len(lines))
        self.assertIn('80.0 s', lines[2])
        self.assertIn('75.0 s', lines[2])
        self.assertTrue(lines[2].endswith('ok'))
        self.assertIn('8.0 s', lines[3])
        self.assertTrue(lines[3].endswith('WRONG'))

    def test_timeline_is_to_scale(self) -> None:
        death, spec, *_ = chart.timeline([_DEATH, _SPEC]).splitlines()
        for letter, seconds in (('t', 60), ('e', 10), ('r', 10)):
            # 72 characters are 84 seconds.
            self.assertAlmostEqual(seconds * 72 / 84, death.count(letter), delta=1)
        self.assertLess(spec.index('─'), death.index('─'))
        self.assertIn('r boot and recovery', chart.timeline([_DEATH]))
        self.assertEqual('', chart.timeline([]))

    def test_steps(self) -> None:
        _, _, first, second = chart.steps(_SPEC).splitlines()
        self.assertEqual(['super', '+1.00', 's', 'e1'], first.split())
        self.assertEqual(['race', '+1.50', 's', '6.50', 's', 'e1'], second.split())

    def test_every_phase_can_be_drawn(self) -> None:
        self.assertEqual(set(outcome.PHASES), set(chart.LETTERS))
        self.assertEqual(set(outcome.PHASES), set(chart.WORDS))
        self.assertEqual(len(chart.LETTERS), len(set(chart.LETTERS.values())))


class PictureTest(testtools.TestCase):

    def test_is_a_png(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'x.png'
        picture.draw(path, [_DEATH, _SPEC], 'as it was measured')
        self.assertTrue(path.read_bytes().startswith(b'\x89PNG'))


class _Terminal(io.StringIO):
    """The progress on a terminal and in a log."""

    def isatty(self) -> bool:
        return True


class ScreenTest(testtools.TestCase):

    def watch(self, stream: io.StringIO) -> str:
        """Be busy until the state has been asked for twice."""
        self.useFixture(fixtures.MockPatch('cloud.demo.screen._TERMINAL', 0.01))
        self.useFixture(fixtures.MockPatch('cloud.demo.screen._KEPT', 0.01))
        shown = screen.Screen(stream)
        requests = threading.Semaphore(0)

        def state() -> str:
            requests.release()
            return 'all is well'
        shown.state = state
        with shown.busy('working'):
            for _ in range(3):
                self.assertTrue(requests.acquire(timeout=60))
        shown.say('done')
        return stream.getvalue()

    def test_lines_are_kept(self) -> None:
        lines = self.watch(io.StringIO()).splitlines()
        self.assertIn('working', lines[0])
        self.assertIn('all is well', lines[1])
        self.assertTrue(lines[-1].endswith('done'))
        self.assertNotIn('\r', ''.join(lines))

    def test_terminal_has_one_changing_line(self) -> None:
        text = self.watch(_Terminal())
        self.assertEqual(2, text.count('\n'))
        self.assertIn('\r\x1b[K        ', text)
        self.assertTrue(text.endswith('done\n'))
        self.assertEqual('', text.rpartition('\x1b[K')[2].partition('[')[0])

    def test_titles(self) -> None:
        for stream, mark in ((io.StringIO(), '== one =='), (_Terminal(), '\x1b[1mone')):
            shown = screen.Screen(stream)
            shown.title('one')
            shown.show('two')
            self.assertIn(mark, stream.getvalue())
            self.assertTrue(stream.getvalue().endswith('two\n'))
