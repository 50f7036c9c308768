# SPDX-License-Identifier: Apache-2.0
"""Results of tests, as a program reports them in subunit's format."""

from collections.abc import Callable, Mapping
import dataclasses
from typing import IO, Any

import subunit
import testtools
from testtools import content

PASSED = 'passed'
FAILED = 'failed'
SKIPPED = 'skipped'

# What is none of these, such as a test that never ended, has failed.
_STATUSES = {'success': PASSED, 'xfail': PASSED, 'skip': SKIPPED}

# Texts that a test has attached, by their names.
Texts = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of one test, or of what a class of tests needs to begin.

    :param words: why the test was skipped, or what explains its failure
    :param seconds: duration
    """

    name: str
    status: str
    words: str = ''
    seconds: float = 0.0

    @property
    def reason(self) -> str:
        """The line of the words that says most."""
        return self.words.rpartition('\n')[2]


def reason(status: str, texts: Texts) -> str:
    """Return why a test was skipped, or the traceback of its failure."""
    wanted = {SKIPPED: 'reason', FAILED: 'traceback'}.get(status)
    return '\n'.join(text for name, text in texts.items()
                     if wanted is not None and name.startswith(wanted)).strip()


def read(stream: IO[bytes], *, copy: IO[bytes] | None = None,
         report: Callable[[Result], None] | None = None,
         explain: Callable[[str, Texts], str] = reason) -> list[Result]:
    """Follow a run to its end, and return its results.

    :param stream: the output of the run
    :param copy: the file in which to keep that
    :param report: called with each result as soon as it is there
    :param explain: returns the words of a result from its status and the attached texts
    """
    results: list[Result] = []

    def tell(test: Mapping[str, Any]) -> None:
        # Output without a test has no name; a listed test has not run.
        if test['id'] is None or test['status'] == 'exists':
            return
        result = _result(test, explain)
        results.append(result)
        if report is not None:
            report(result)

    # A test that has begun and never ended is reported at the end of the run.
    targets: list[Any] = [testtools.StreamToDict(tell)]
    if copy is not None:
        targets.append(subunit.StreamResultToBytes(copy))
    target = testtools.CopyStreamResult(targets)
    target.startTestRun()
    try:
        subunit.ByteStreamToStreamResult(stream, non_subunit_name='output').run(target)
    finally:
        target.stopTestRun()
    return results


def _result(test: Mapping[str, Any], explain: Callable[[str, Texts], str]) -> Result:
    status = _STATUSES.get(str(test['status']), FAILED)
    began, ended = test['timestamps']
    texts = {name: _text(detail) for name, detail in test['details'].items()}
    return Result(test['id'], status, explain(status, texts),
                  (ended - began).total_seconds() if began and ended else 0.0)


def _text(detail: content.Content) -> str:
    return detail.as_text() if detail.content_type.type == 'text' else ''
