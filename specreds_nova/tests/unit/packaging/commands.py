# SPDX-License-Identifier: Apache-2.0
"""The help of each command of this project."""

import contextlib
import functools
import importlib
import io
import itertools
from unittest import mock

from cliff import app
from cliff import command as cliff_command
from cliff import commandmanager

from specreds_cinder.cli import main as super_main
from specreds_nova.tests.unit.packaging import base

# Programs that are not cliff applications; their first words select the action.
_PLAIN = ('specreds-engine-manage', 'specreds-status', 'specreds-engine', 'specreds-sentinel',
          'specreds-preflight')
_CLIENT = {'volume': 'openstack.volume.v3', 'speculative': 'openstack.speculative.v1'}
_OWN = ('volume super', 'speculative')


def ours(words: list[str]) -> bool:
    """Return whether a command line is one of this project's commands."""
    if words[:1] == ['openstack']:
        return ' '.join(words[1:]).startswith(_OWN)
    return bool(words) and words[0] in base.scripts()


def help_of(words: list[str]) -> str:
    """Return the help of a command line's command.

    :raises KeyError: there is no such command
    """
    if words[0] == 'openstack':
        return _cliff_help(_CLIENT[words[1]], tuple(words[1:]))
    if words[0] in _PLAIN:
        return _plain_help(words[0], tuple(word for word in words[1:3]
                                           if word.isalpha() and '-' not in word))
    shell: app.App = super_main.SuperApp()
    text: str = shell.parser.format_help()
    names = [name for name, _ in shell.command_manager]
    wanted = next((word for word in words[1:] if word in names), None)
    if wanted is None:
        if any(word.isalpha() and not before.startswith('-')
               for before, word in itertools.pairwise(words)):
            raise KeyError(' '.join(words))
        return text
    return text + _help(shell, shell.command_manager.find_command([wanted])[0], wanted)


@functools.cache
def _cliff_help(group: str, words: tuple[str, ...]) -> str:
    manager = commandmanager.CommandManager(group)
    shell = app.App('test', '0', manager, stdout=io.StringIO())
    try:
        factory, name, _ = manager.find_command(list(words))
    except ValueError:
        raise KeyError(' '.join(words)) from None
    return _help(shell, factory, name)


def _help(shell: app.App, factory: type[cliff_command.Command], name: str) -> str:
    text: str = factory(shell, None).get_parser(name).format_help()
    return text


@functools.cache
def _plain_help(program: str, words: tuple[str, ...]) -> str:
    module, _, name = base.scripts()[program].partition(':')
    main = getattr(importlib.import_module(module), name)
    text = ''
    # Options may stand before and after the words.
    for arguments in (('--help',), (*words, '--help')):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), \
                mock.patch('sys.argv', [program, *arguments]):
            try:
                main(list(arguments))
            except SystemExit as exc:
                if exc.code:
                    raise KeyError(f'{program} {" ".join(words)}') from None
        text += printed.getvalue()
    return text
