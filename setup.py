# SPDX-License-Identifier: Apache-2.0
"""Packaging; everything is said in setup.cfg."""

import setuptools

setuptools.setup(setup_requires=['pbr>=6.1.1'], pbr=True)
