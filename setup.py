# SPDX-License-Identifier: Apache-2.0
"""Packaging that setup.cfg cannot express."""

import os
import pathlib

import setuptools


def install_data(command):
    """Return the command with specreds.pth in site-packages, the only place where it works."""
    class InstallData(command):
        def finalize_options(self):
            super().finalize_options()
            # A wheel has a directory for packages, beside the one for other data.
            packages = os.path.relpath(
                pathlib.Path(self.install_dir).parent / 'purelib', self.install_dir)
            self.data_files = [(packages if place == '.' else place, names)
                               for place, names in self.data_files]

    return InstallData


def build_py(command):
    """Return the command without the tests: they need the checkout that they test."""
    class BuildPy(command):
        def finalize_options(self):
            super().finalize_options()
            self.packages = [name for name in self.packages if 'tests' not in name.split('.')]

        def find_data_files(self, package, src_dir):
            return [path for path in super().find_data_files(package, src_dir)
                    if 'tests' not in pathlib.PurePath(path).parts]

    return BuildPy


class Distribution(setuptools.Distribution):
    """Changes commands of setuptools, as pbr ignores ``cmdclass``."""

    def get_command_class(self, command):
        """Return a command's class."""
        original = super().get_command_class(command)
        change = {'build_py': build_py, 'install_data': install_data}.get(command)
        return change(original) if change else original

    def has_data(self):
        """Return whether there are data files, under the name that editable installations call."""
        return self.has_data_files()


setuptools.setup(setup_requires=['pbr>=6.1.1'], pbr=True, distclass=Distribution)
