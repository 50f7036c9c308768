# SPDX-License-Identifier: Apache-2.0
"""Find faults of language that a program can find, in sources and pages."""

import ast
from collections.abc import Iterator
import io
import re
import tokenize

LONGEST_LINE = 100

_BAD_START = re.compile(r'(Give|Tell|Who|Whoever|Whose|Whom)s?\b')
_CODE = re.compile(r'^(?P<indent> *)\.\. code-block::.*\n(?:(?:(?P=indent) +.*)?\n)*', re.M)
_FIELD = re.compile(r':[a-z-]+: ')
_PERSON = re.compile(r'\b(he|him|his|himself)\b', re.IGNORECASE)
# Names that any value could have.
_VAGUE_NAMES = frozenset({'found', 'one', 'told', 'asked', 'given'})
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def faults_of_source(source: str) -> Iterator[str]:
    """Yield each fault in the docstrings, strings and comments of a module, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED):
            line = node.body[0].lineno if node.body else 1
            yield from (f'{line}: {fault}' for fault in _faults_of_docstring(node))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (f'{node.lineno}: {fault}' for fault in _faults_of_text(node.value))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield from _faults_of_name(node.lineno, node.id)
        if isinstance(node, ast.arg):
            yield from _faults_of_name(node.lineno, node.arg)
        if isinstance(node, ast.ExceptHandler) and node.name not in (None, 'exc'):
            yield f'{node.lineno}: the exception is named {node.name}, not exc'
    # Most sources have no such word anywhere, and tokens take long.
    tokens = tokenize.generate_tokens(io.StringIO(source).readline) \
        if _PERSON.search(source) else ()
    for token in tokens:
        if token.type == tokenize.COMMENT:
            yield from (f'{token.start[0]}: {fault}' for fault in _faults_of_text(token.string))


def faults_of_page(page: str) -> Iterator[str]:
    """Yield each fault of a page of documentation, with its line."""
    # A command or a line of a file cannot be broken.
    prose = _CODE.sub(lambda block: '\n' * block[0].count('\n'), page)
    for number, line in enumerate(prose.splitlines(), 1):
        if len(line) > LONGEST_LINE and ' ' in _FIELD.sub('', line.strip()):
            yield f'{number}: {len(line)} characters'
        # What is between backquotes is quoted.
        yield from (f'{number}: {fault}' for fault in _faults_of_text(re.sub('`+.*?`+', '', line)))


def _faults_of_name(line: int, name: str) -> Iterator[str]:
    if name in _VAGUE_NAMES:
        yield f'{line}: {name} does not say what it holds'


def _faults_of_docstring(node: ast.AST) -> Iterator[str]:
    docstring = ast.get_docstring(node)  # type: ignore[arg-type]
    if docstring is None or docstring.startswith(':'):
        return
    if bad := _BAD_START.match(docstring):
        yield f'the docstring begins with {bad[0]!r}'
    summary = docstring.split('\n\n')[0]
    if not summary.endswith(('.', '?', ':')):
        yield 'the summary of the docstring does not end with a period'


def _faults_of_text(text: str) -> Iterator[str]:
    for person in _PERSON.finditer(text):
        yield f'{person[0]!r} is for people'
