# SPDX-License-Identifier: Apache-2.0
"""``openstack volume super`` without a subcommand: an introduction."""

import argparse

from osc_lib.command import command

_NAME = 'volume super'


class Super(command.Command):
    """\
    A superposition gives volumes two versions, until one of them is observed.
    When the host of a server seems to have failed, "create" begins the second one:
    a backup of the server runs on it, sealed off, while the primary may still run.
    "check" reports whether the primary has written since: then "collapse --abort".
    If not, "collapse --promote" fences it: the second version is the real one.
    """

    auth_required = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Keep the line breaks of the description."""
        self._parser = super().get_parser(prog_name)
        self._parser.formatter_class = argparse.RawDescriptionHelpFormatter
        return self._parser

    def get_epilog(self) -> str:
        """Return the list of commands."""
        lines = {name: entry.load()(self.app, None).get_description().splitlines()[0].rstrip('.')
                 for name, entry in sorted(self.app.command_manager)
                 if name.startswith(f'{_NAME} ')}
        width = max(map(len, lines), default=0)
        commands = '\n'.join(f'  {name.ljust(width)}  {line}' for name, line in lines.items())
        return f'commands:\n{commands}\n\n{super().get_epilog()}'

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self._parser.print_help(self.app.stdout)
