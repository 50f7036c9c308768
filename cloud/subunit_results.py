# SPDX-License-Identifier: Apache-2.0
"""Results of tests, as a program reports them in subunit's format."""

from collections.abc import Callable, Iterable, Mapping, Set
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

_NOT_ENDED = 'did not end: the process that ran it has ended'
_NOT_BEGUN = 'did not begin: the process that had to run it has ended'
# How many of further tests that did not begin are named.
_NAMED = 5

# Texts that a test has attached, by their names.
Texts = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of one test, or of what a class of tests needs to begin.

    :param words: why the test was skipped, or what explains its failure
    :param seconds: duration
    :param texts: all that a test attached which has failed
    """

    name: str
    status: str
    words: str = ''
    seconds: float = 0.0
    texts: Texts = dataclasses.field(default_factory=dict, compare=False, repr=False)

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
         output: Callable[[bytes], object] | None = None,
         report: Callable[[Result], object] | None = None,
         explain: Callable[[str, Texts], str] = reason) -> list[Result]:
    """Follow a run to its end, and return its results.

    A program lists its tests before it runs them. A listed test without a result has failed: the
    program died between two tests.

    :param stream: the output of the run
    :param copy: the file in which to keep that
    :param output: called with what programs print between results
    :param report: called with each result as soon as it is there
    :param explain: returns the words of a result from its status and the attached texts
    """
    listed: dict[str, None] = {}
    results: list[Result] = []

    def add(result: Result) -> None:
        results.append(result)
        if report is not None:
            report(result)

    def tell(test: Mapping[str, Any]) -> None:
        if test['status'] == 'exists':
            listed[test['id']] = None
        else:
            add(_result(test, explain))

    # A test that has begun and never ended is reported at the end of the run.
    targets: list[Any] = [testtools.StreamToDict(tell)]
    if copy is not None:
        targets.append(subunit.StreamResultToBytes(copy))
    if output is not None:
        targets.append(_Output(output))
    target = testtools.CopyStreamResult(targets)
    target.startTestRun()
    try:
        subunit.ByteStreamToStreamResult(stream, non_subunit_name='output').run(target)
    finally:
        target.stopTestRun()
    if missing := _missing(listed, {result.name for result in results}):
        # One result for all: there may be thousands.
        first, *others = missing
        more = f', like {len(others)} more: {", ".join(others[:_NAMED])}' if others else ''
        add(Result(first, FAILED, f'{_NOT_BEGUN}{more}'))
    return results


class _Output(testtools.StreamResult):
    """Passes on what belongs to no test."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        super().__init__()
        self._write = write

    def status(self, *args: Any, test_id: str | None = None, file_bytes: bytes | None = None,
               **kwargs: Any) -> None:
        if test_id is None and file_bytes:
            self._write(file_bytes)


def _missing(listed: Iterable[str], known: Set[str]) -> list[str]:
    """Return the names of the listed tests without a result, except for what is known of a class.

    The result of a class that cannot begin, or of its module, stands for the class's tests.
    """
    missing = []
    for name in listed:
        kind = name.partition('[')[0].rpartition('.')[0]
        module = kind.rpartition('.')[0]
        if not {name, f'setUpClass ({kind})', f'setUpModule ({module})'} & known:
            missing.append(name)
    return missing


def _result(test: Mapping[str, Any], explain: Callable[[str, Texts], str]) -> Result:
    status = _STATUSES.get(str(test['status']), FAILED)
    began, ended = test['timestamps']
    texts = {name: _text(detail) for name, detail in test['details'].items()}
    if test['status'] == 'inprogress':
        texts = {**texts, 'traceback': _NOT_ENDED}
    return Result(test['id'], status, explain(status, texts),
                  (ended - began).total_seconds() if began and ended else 0.0,
                  texts if status == FAILED else {})


def _text(detail: content.Content) -> str:
    # Programs print any bytes, whatever their content is called.
    return b''.join(detail.iter_bytes()).decode(errors='replace') \
        if detail.content_type.type == 'text' else ''
