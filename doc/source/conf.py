# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the documentation."""

extensions = ['sphinx.ext.autodoc']

project = 'SpecREDS'
copyright = '2026, the SpecREDS contributors'
root_doc = 'index'

html_theme = 'alabaster'
html_theme_options = {'description': 'speculative recovery on stock Ceph'}

# The Ceph bindings come from the distribution; the documentation is built without them too.
autodoc_mock_imports = ['nbd', 'rados', 'rbd']
autodoc_typehints = 'description'
