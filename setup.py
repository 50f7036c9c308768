# SPDX-License-Identifier: Apache-2.0
"""Packaging that setup.cfg cannot express."""

import os
import pathlib

import setuptools


class Distribution(setuptools.Distribution):
    """Installs specreds.pth into site-packages, the only place where it works."""

    def get_command_class(self, command):
        """Return a command's class; pbr ignores ``cmdclass``."""
        original = super().get_command_class(command)
        if command != 'install_data':
            return original

        class InstallData(original):
            def finalize_options(self):
                super().finalize_options()
                # A wheel has a directory for packages, beside the one for other data.
                packages = os.path.relpath(
                    pathlib.Path(self.install_dir).parent / 'purelib', self.install_dir)
                self.data_files = [(packages if place == '.' else place, names)
                                   for place, names in self.data_files]

        return InstallData

    def has_data(self):
        """Return whether there are data files, under the name that editable installations call."""
        return self.has_data_files()


setuptools.setup(setup_requires=['pbr>=6.1.1'], pbr=True, distclass=Distribution)
