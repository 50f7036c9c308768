# SPDX-License-Identifier: Apache-2.0
"""The pictures of the documentation are up to date with their sources."""

import re
import runpy
from typing import Any
from xml.etree import ElementTree

import testtools

from specreds_cinder.superposition.truth import states
from specreds_nova.tests.unit.packaging import base

_IMAGES = base.ROOT / 'doc/source/images'
_ARROW = re.compile(r'^arrow (\w+) -> (\w+):', re.MULTILINE)


def tool(name: str) -> dict[str, Any]:
    """Return what a program of the directory tools defines, without running the program."""
    return runpy.run_path(str(base.ROOT / 'tools' / name))


class DiagramsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.draw = tool('draw-diagram')['draw']

    def test_pictures_are_up_to_date(self) -> None:
        texts = sorted(_IMAGES.glob('*.diagram'))
        self.assertNotEqual([], texts)
        for text in texts:
            self.assertEqual(self.draw(text.read_text()), text.with_suffix('.svg').read_text(),
                             f'run tools/draw-diagram: {text.name} has changed')

    def test_race_is_up_to_date(self) -> None:
        self.assertEqual(tool('draw-race')['draw'](), (_IMAGES / 'race.svg').read_text())

    def test_every_picture_is_shown(self) -> None:
        pages = ''.join(page.read_text() for page in (base.ROOT / 'doc/source').rglob('*.rst'))
        for picture in _IMAGES.glob('*.svg'):
            self.assertIn(f'images/{picture.name}', pages)

    def test_states_are_those_of_the_record(self) -> None:
        wanted = {(before, after) for before, moves in states.MOVES.items() for after in moves}
        wanted |= {(last, 'gone') for last, moves in states.MOVES.items() if not moves}
        self.assertEqual(wanted, set(_ARROW.findall((_IMAGES / 'states.diagram').read_text())))

    def test_picture_has_boxes_and_lines(self) -> None:
        picture = self.draw('title: A & B\ngrid: 100 60\nframe 0 0 2 1: both\n'
                            'box a 0 0 good: one|two\nbox b 1 0: three\narrow a <-> b: says\n')
        root = ElementTree.fromstring(picture)
        texts = [element.text for element in root.iter('{http://www.w3.org/2000/svg}text')]
        self.assertEqual(['A & B', 'both', 'one', 'two', 'three', 'says', 'says'], texts)
        [line] = root.iter('{http://www.w3.org/2000/svg}line')
        # From the right side of one box to the left side of the other.
        self.assertEqual(('102', '134'), (line.get('x1'), line.get('x2')))

    def test_unknown_line_is_an_error(self) -> None:
        self.assertRaises(ValueError, self.draw, 'circle 1: text')
        self.assertRaises(ValueError, self.draw, 'arrow a => b: text')
        self.assertRaises(KeyError, self.draw, 'arrow a -> b: text')
