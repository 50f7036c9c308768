# SPDX-License-Identifier: Apache-2.0
"""Drive NBD exports with fio and read its results."""

from collections.abc import Mapping, Sequence
import dataclasses
import json
import pathlib
import subprocess
from typing import Any


class FioFailed(Exception):
    """fio ended with an error, or printed no valid JSON."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One job; jobs of a run are run one after another.

    :param uri: the export's
    :param options: fio's own
    """

    name: str
    uri: str
    options: Mapping[str, object]


def replay(name: str, uri: str, path: pathlib.Path, depth: int) -> Job:
    """Describe the replay of a fio log as fast as possible.

    :param depth: requests in flight
    """
    return Job(name, uri, {'read_iolog': path, 'replay_no_stall': 1, 'replay_redirect': 'disk',
                           'iodepth': depth})


class Result:
    """What fio measured in one job."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._job = job
        self.seconds: float = job['job_runtime'] / 1e3

    def iops(self, kind: str = 'write') -> float:
        """Requests per second; kind is ``read`` or ``write``."""
        return float(self._job[kind]['iops'])

    def count(self, kind: str = 'write') -> int:
        """Requests that were answered."""
        return int(self._job[kind]['total_ios'])

    def mean_ms(self, kind: str = 'write') -> float:
        """Mean latency from submission to completion, in milliseconds."""
        return float(self._job[kind]['clat_ns']['mean']) / 1e6

    def bins(self, kind: str = 'write') -> dict[int, int]:
        """How many requests took how many nanoseconds."""
        bins = self._job[kind]['clat_ns'].get('bins', {})
        return {int(latency): int(count) for latency, count in bins.items()}


def command(jobs: Sequence[Job], path: pathlib.Path) -> list[str]:
    """Write a job file, and return the command that runs it."""
    sections = ['[global]\nioengine=nbd\nthread\n']
    for job in jobs:
        lines = [f'[{job.name}]', 'stonewall', f'uri={job.uri}']
        lines += [f'{name}={value}' for name, value in job.options.items()]
        sections.append('\n'.join(lines) + '\n')
    path.write_text('\n'.join(sections))
    return ['fio', '--output-format=json+', str(path)]


def run(jobs: Sequence[Job], scratch: pathlib.Path, timeout: float = 300) -> list[Result]:
    """Run jobs one after another, and return the result of each.

    :param scratch: directory for the job file and whatever fio leaves behind
    :param timeout: seconds for all of them
    :raises FioFailed: fio failed or took too long
    """
    try:
        done = subprocess.run(command(jobs, scratch / 'jobs.fio'), cwd=scratch,
                              capture_output=True, text=True, timeout=timeout)
    except FileNotFoundError:
        raise FioFailed('fio is missing: install the package fio') from None
    except subprocess.TimeoutExpired:
        raise FioFailed(f'fio did not end within {timeout:g} s') from None
    if done.returncode:
        raise FioFailed(f'fio failed ({done.returncode}): '
                        f'{(done.stderr or done.stdout).strip()[-2000:]}')
    return parse(done.stdout)


def parse(output: str) -> list[Result]:
    """Parse fio's JSON, and skip what the nbd engine prints before it.

    :raises FioFailed: there is no JSON, or a job had an error
    """
    start = output.find('{')
    try:
        jobs = json.loads(output[start:])['jobs'] if start >= 0 else None
    except (ValueError, KeyError):
        jobs = None
    if jobs is None:
        raise FioFailed(f'fio printed no result: {output.strip()[-2000:]!r}')
    for job in jobs:
        if job['error']:
            raise FioFailed(f'fio job {job["jobname"]} failed with error {job["error"]}')
    return [Result(job) for job in jobs]
