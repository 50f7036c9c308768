# SPDX-License-Identifier: Apache-2.0
"""Rounds side by side: all are played, and one that hangs is found."""

import os
import threading

import testtools

from testing.race import crew as crews
from testing.race import outcomes

_TASKS = [crews.Task(number, outcomes.KINDS[number % 5], number) for number in range(6)]
_FOREVER_S = 3600


def _play(pid: int, task: crews.Task, story: list[str]) -> outcomes.Result:
    story.append(f'round of process {pid}')
    return outcomes.Result(task.kind, outcomes.DIRTY, None, [], (str(task.seed),))


def _hang(pid: int, task: crews.Task, story: list[str]) -> outcomes.Result:
    if task.number == 1:
        story.append('the last step')
        threading.Event().wait(_FOREVER_S)
    return _play(pid, task, story)


def _die(_pid: int, _task: crews.Task, _story: list[str]) -> outcomes.Result:
    os._exit(1)


class _Unsendable(Exception):
    def __reduce__(self) -> str:
        raise AttributeError


def _fail(_pid: int, _task: crews.Task, story: list[str]) -> outcomes.Result:
    story.append('the last step')
    raise _Unsendable


class CrewTest(testtools.TestCase):

    def test_each_round_is_played_once_by_one_of_the_processes(self) -> None:
        played = sorted(crews.Crew(os.getpid, _play).run(_TASKS, jobs=2),
                        key=lambda ended: ended.task.number)
        self.assertEqual(_TASKS, [ended.task for ended in played])
        for ended in played:
            self.assertEqual((ended.task.kind, (str(ended.task.seed),)),
                             (ended.result.kind, ended.result.attacks))
            self.assertNotIn(f'round of process {os.getpid()}', ended.story)

    def test_round_that_hangs_ends_the_run(self) -> None:
        crew = crews.Crew(os.getpid, _hang, longest_s=1)
        self.assertRaises(crews.RoundHangs, list, crew.run(_TASKS, jobs=1))

    def test_error_of_a_round_ends_the_run_with_its_story(self) -> None:
        error = self.assertRaises(crews.RoundFails, list,
                                  crews.Crew(os.getpid, _fail).run(_TASKS, jobs=1))
        for words in ('race 1: live-steady, seed 0', 'the last step', '_Unsendable'):
            self.assertIn(words, str(error))

    def test_process_that_dies_ends_the_run(self) -> None:
        self.assertRaises(crews.RoundHangs, list,
                          crews.Crew(os.getpid, _die).run(_TASKS, jobs=1))
