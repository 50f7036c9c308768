# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the documentation."""

import argparse
from collections.abc import Iterable
from typing import Any

from cliff import sphinxext

extensions = [
    'cliff.sphinxext',
    'oslo_config.sphinxext',
    'oslo_policy.sphinxext',
    'sphinx.ext.autodoc',
]

project = 'SpecREDS'
copyright = '2026, the SpecREDS contributors'
root_doc = 'index'

html_theme = 'alabaster'
html_theme_options = {'description': 'speculative recovery on stock Ceph'}

# A reference that leads nowhere is an error.
nitpicky = True

# Placeholders, and addresses of whoever reads it.
linkcheck_ignore = [r'https?://(controller|localhost|127\.0\.0\.1)([:/].*)?$']
linkcheck_timeout = 30
linkcheck_retries = 2

# The Ceph bindings come from the distribution; the documentation is built without them too.
autodoc_mock_imports = ['nbd', 'rados', 'rbd']
autodoc_typehints = 'description'


def setup(app: Any) -> None:
    """Let the reference of commands tell defaults, which cliff leaves as ``%(default)s``."""
    del app
    plain = sphinxext._format_parser

    def expanded(parser: argparse.ArgumentParser) -> Iterable[str]:
        for action in parser._actions:
            if action.help and action.help is not argparse.SUPPRESS:
                action.help = (action.help % {**vars(action), 'prog': parser.prog}).replace(
                    '%', '%%')
        return plain(parser)

    sphinxext._format_parser = expanded
