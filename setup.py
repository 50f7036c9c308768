# SPDX-License-Identifier: Apache-2.0
"""Packaging; what can be said in setup.cfg is said there."""

import os
import pathlib

import setuptools


class Distribution(setuptools.Distribution):
    """Installs specreds.pth into site-packages: it works nowhere else."""

    def get_command_class(self, command):
        """Return a command's class. (pbr drops those that are given as ``cmdclass``.)"""
        found = super().get_command_class(command)
        if command != 'install_data':
            return found

        class InstallData(found):
            def finalize_options(self):
                super().finalize_options()
                # A wheel has a directory for packages, beside the one for other data.
                packages = os.path.relpath(
                    pathlib.Path(self.install_dir).parent / 'purelib', self.install_dir)
                self.data_files = [(packages if place == '.' else place, names)
                                   for place, names in self.data_files]

        return InstallData

    def has_data(self):
        """Tell an editable installation, which asks for this name, that there are data files."""
        return self.has_data_files()


setuptools.setup(setup_requires=['pbr>=6.1.1'], pbr=True, distclass=Distribution)
