# SPDX-License-Identifier: Apache-2.0
"""The plug-in has the version of the checkout."""

from pbr import packaging
import setuptools

# With its name, setuptools knows that this script is no module of the package around it.
setuptools.setup(script_name='setup.py', version=packaging.get_version('specreds-tempest-plugin'))
