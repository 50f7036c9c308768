# SPDX-License-Identifier: Apache-2.0
"""The page about the commands has every command with its options."""

import argparse
import io
import pathlib
import re

from cliff import app
from cliff import commandmanager
import testtools

import specreds_cinder

_PAGE = pathlib.Path(specreds_cinder.__file__).parents[1] / 'doc/source/cli/index.rst'
_OWN = re.compile(r'--[a-z-]+')


class DocsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        shell = app.App('test', '0', commandmanager.CommandManager('openstack.volume.v3'),
                        stdout=io.StringIO())
        self.commands = {name.removeprefix('volume super').strip(): entry.load()(shell, None)
                         for name, entry in shell.command_manager
                         if name.startswith('volume super')}
        self.page = _PAGE.read_text()

    def test_page_has_the_description(self) -> None:
        idea = [line.strip() for line in
                self.commands.pop('').get_description().splitlines()]
        self.assertIn('\n   '.join(idea), self.page)

    def test_page_has_the_options_of_every_command(self) -> None:
        del self.commands['']
        # A long line goes on in the next one, after an ellipsis.
        lines = self.page.replace('``\n``… ', ' ').splitlines()
        documented = {line.split()[0].strip('`'): set(_OWN.findall(line))
                for line in lines if line.startswith('``')
                and line.split()[0].strip('`') in self.commands}
        self.assertEqual(
            {name: _options(command.get_parser(name)) for name, command in self.commands.items()},
            documented)


def _options(parser: argparse.ArgumentParser) -> set[str]:
    """Return a command's own options: cliff has those of the formatters in groups."""
    formatting = {action for group in parser._action_groups[2:]
                  for action in group._group_actions}
    return {option for action in parser._actions if action not in formatting
            for option in action.option_strings if option.startswith('--') and option != '--help'}
