# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the release notes."""

extensions = ['reno.sphinxext']

project = 'SpecREDS Release Notes'
copyright = '2026, the SpecREDS contributors'
root_doc = 'index'

html_theme = 'alabaster'
html_theme_options = {'description': 'speculative recovery on stock Ceph'}
