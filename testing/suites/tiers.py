# SPDX-License-Identifier: Apache-2.0
"""Run tests in their order: quick checks, what needs processors, what needs clusters."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import queue
import subprocess
import time
import traceback

from cloud import commands as cloud_commands
from testing.suites import commands
from testing.suites import declared
from testing.suites import outcome
from testing.suites import places
from testing.suites import report
from testing.suites import running
from testing.suites import search

# Our own tests for Tempest: tests of the APIs, and one in which a host dies.
_TEMPEST = (r'^tempest_plugin\.((api|rbac)\.|scenario\.test_killed\.KilledTest\.'
            r'test_one_volume\b)')
_TEMPEST_SUITE = 'engine'
# Behind the ports of the tests' clouds.
_PORTS = 200


class Tier:
    """One run of ``./run check`` or ``./run test``.

    :param top: directory of the checkout
    :param data: directory for clusters, logs and stestr's repositories
    :param tier: of declared.TIERS
    :param say: shows a line of progress
    """

    def __init__(self, top: pathlib.Path, data: pathlib.Path, tier: str,
                 say: Callable[[str], None]) -> None:
        self._top = top
        self._data = data
        self._tier = tier
        self._say = say
        self._runner = running.Runner(top, data, tier, show=print)
        self._places = places.Places(top, data, self._failed, say)
        self._ended: list[outcome.Outcome] = []
        self._stopped = ''
        self._left_out: list[str] = []

    def stop(self, why: str) -> None:
        """Begin nothing more. What runs has to end, by the signal that every process gets."""
        self._stopped = why
        self._places.stop(why)

    def all(self, suites: Sequence[declared.Suite]) -> list[outcome.Outcome]:
        """Run everything of the tier, and return what came of it."""
        mine = [search.Choice(suite) for suite in declared.of_tier(suites, self._tier)]
        checks = [check for check in commands.COMMANDS
                  if declared.TIERS.index(check.tier) <= declared.TIERS.index(self._tier)]
        for check in checks:
            if check.fast:
                self._command(check)
        if self._failed():
            return self._ended
        quiet = [choice for choice in mine if choice.suite.needs == declared.PROCESSORS]
        clusters = [choice for choice in mine if choice not in quiet]
        slow = [check for check in checks if not check.fast and not check.alone]
        jobs: queue.SimpleQueue[search.Choice | commands.Command] = queue.SimpleQueue()
        for job in self._longest_first(quiet, slow):
            jobs.put(job)
        # Tests on clusters mostly wait; one process beside them uses what they leave. Other tests
        # wait as well, so one job more than there are processors keeps these busy.
        with concurrent.futures.ThreadPoolExecutor(running.processors() + 1) as pool:
            workers = [pool.submit(self._work, jobs, bool(clusters))]
            self._on_clusters(clusters)
            workers += [pool.submit(self._work, jobs, False)
                        for _ in range(running.processors())]
            for worker in workers:
                worker.result()
        for check in checks:
            if check.alone:
                self._command(check)
        return self._all_ended()

    def chosen(self, choices: Sequence[search.Choice]) -> list[outcome.Outcome]:
        """Run chosen tests, and return what came of them."""
        for choice in choices:
            if choice.suite.needs == declared.PROCESSORS:
                self._suite(choice, running.processors())
        self._on_clusters([choice for choice in choices
                           if choice.suite.needs != declared.PROCESSORS])
        return self._all_ended()

    def _all_ended(self) -> list[outcome.Outcome]:
        if self._stopped:
            self._ended.append(outcome.Outcome('run', [outcome.Test(
                f'stopped by {self._stopped}', outcome.FAILED,
                words=f'not begun: {", ".join(self._left_out) or "nothing"}')], 0))
        return self._ended

    def _begins(self, name: str) -> bool:
        """Return whether a suite or check may begin."""
        if self._stopped:
            self._left_out.append(name)
            return False
        self._say(f'{name}: begins')
        return True

    def _failed(self) -> bool:
        return any(each.wrong for each in self._ended)

    def _longest_first(self, choices: Iterable[search.Choice],
                       checks: Iterable[commands.Command]
                       ) -> 'list[search.Choice | commands.Command]':
        """Return jobs in the order of what they took at the last run; new ones come first."""
        last = report.durations(self._data)
        jobs: list[search.Choice | commands.Command] = [*choices, *checks]
        return sorted(jobs, key=lambda job: -last.get(_name(job), float('inf')))

    def _work(self, jobs: 'queue.SimpleQueue[search.Choice | commands.Command]',
              nice: bool) -> None:
        """Run jobs that need only processors, beside others, until none is left."""
        with contextlib.suppress(queue.Empty):
            while True:
                job = jobs.get_nowait()
                with self._reported(_name(job)):
                    if isinstance(job, commands.Command):
                        self._command(job, nice=nice)
                    else:
                        self._suite(job, 1, quiet=True, nice=nice)

    def _on_clusters(self, choices: Sequence[search.Choice]) -> None:
        """Run the tests that need a Ceph or a cloud."""
        ceph = [choice for choice in choices if choice.suite.needs == declared.CEPH]
        volumes = [choice for choice in choices if choice.suite.needs == declared.CLOUD]
        hosts = [choice for choice in choices if choice.suite.needs == declared.HOSTS]
        if ceph or volumes:
            # A few tests need fewer Cephs than all of a suite.
            number = max((1 if choice.regex else choice.suite.processes for choice in ceph),
                         default=1)
            with self._reported('Ceph'), self._places.cephs(number) as cephs:
                for choice in ceph:
                    self._suite(choice, number, variables={
                        'SPECREDS_TEST_DATA': os.pathsep.join(map(str, cephs))})
                if volumes:
                    with self._reported('cloud of volumes'), \
                            self._places.volumes(cephs[0]) as cloud:
                        for choice in volumes:
                            self._on_cloud(choice, cloud)
        # Suites with the same options share a cloud; those without engines come first.
        for options, group in itertools.groupby(hosts, lambda choice: choice.suite.options):
            with self._reported(' '.join(['cloud of hosts', *options])), \
                    self._places.hosts(options) as cloud:
                for choice in sorted(group, key=lambda choice: choice.suite.engines):
                    if choice.suite.engines:
                        self._places.engines(cloud, choice.suite.engines)
                    self._on_cloud(choice, cloud)
                    if choice.suite.name == _TEMPEST_SUITE and not choice.regex:
                        self._command(commands.Command('tempest-plugin', (
                            *commands.PYTHON, 'cloud', 'tempest', '--cloud', str(cloud),
                            '--data', '{data}/test-tempest', _TEMPEST)))

    @contextlib.contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Turn any error into a failure. The rest still runs."""
        began = time.monotonic()
        try:
            yield
        except Exception as exc:
            known = isinstance(exc, cloud_commands.CloudError)
            self._say(f'error: {exc}')
            seconds = time.monotonic() - began
            self._ended.append(outcome.Outcome(what, [outcome.Test(
                'did not begin or end well', outcome.FAILED,
                str(exc) if known else traceback.format_exc(), seconds)], seconds))

    def _on_cloud(self, choice: search.Choice, cloud: pathlib.Path) -> None:
        self._suite(choice, 1, variables={'SPECREDS_TEST_CLOUD': str(cloud)})

    def _suite(self, choice: search.Choice, processes: int, *, quiet: bool = False,
               nice: bool = False, variables: Mapping[str, str] | None = None) -> None:
        """Run a suite, and keep what came of it."""
        if not self._begins(choice.suite.name):
            return
        ended = self._runner.run(
            choice, processes, quiet=quiet, nice=nice,
            variables={**choice.suite.variables(self._tier), **(variables or {})})
        self._end(ended)

    def _command(self, check: commands.Command, *, nice: bool = False) -> None:
        """Run a command, and keep whether it succeeded."""
        if not self._begins(check.name):
            return
        began = time.monotonic()
        log = self._runner.log(check.name)
        with log.open('w') as output:
            status = subprocess.run(
                [*running.NICE[nice], *check.words(self._data, self._places.cloud_port + _PORTS)],
                cwd=self._top, env=os.environ | {
                    'PATH': os.pathsep.join([commands.BIN, os.environ.get('PATH', '')])},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT).returncode
        seconds = time.monotonic() - began
        self._end(outcome.Outcome(check.name, outcome.of_program(status, log, seconds), seconds))

    def _end(self, ended: outcome.Outcome) -> None:
        self._ended.append(ended)
        wrong = f', {len(ended.wrong)} WRONG' if ended.wrong else ''
        self._say(f'{ended.name}: {ended.seconds:.0f} s, {ended.count(outcome.PASSED)} passed, '
                  f'{ended.count(outcome.FAILED)} failed, {ended.count(outcome.SKIPPED)} skipped'
                  + wrong)


def _name(job: 'search.Choice | commands.Command') -> str:
    return job.name if isinstance(job, commands.Command) else job.suite.name
