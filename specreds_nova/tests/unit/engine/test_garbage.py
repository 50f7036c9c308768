# SPDX-License-Identifier: Apache-2.0
"""How often an engine looks for garbage."""

import subprocess
import sys

import testtools

# In a process of its own: the settings are those of the whole process.
_PROGRAM = """
import gc
from specreds_nova.engine import main
main.collect_rarely()
frozen, before = gc.get_freeze_count(), gc.get_stats()[0]['collections']
kept = [[] for _ in range(20_000)]
print(frozen > 1_000, gc.get_stats()[0]['collections'] - before)
"""


class GarbageTest(testtools.TestCase):

    def test_objects_of_a_second_do_not_lead_to_a_look(self) -> None:
        shown = subprocess.run([sys.executable, '-c', _PROGRAM], capture_output=True, text=True,
                               check=True)
        self.assertEqual('True 0', shown.stdout.strip(), shown.stderr)
