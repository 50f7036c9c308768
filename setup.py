# SPDX-License-Identifier: Apache-2.0
"""Packaging; what can be said in setup.cfg is said there."""

import pathlib

import setuptools


class Distribution(setuptools.Distribution):
    """Installs data files into site-packages: specreds.pth works nowhere else."""

    def get_command_class(self, command):
        """Give a command's class. (pbr drops those that are given as ``cmdclass``.)"""
        found = super().get_command_class(command)
        if command != 'install_data':
            return found

        class InstallBesidePackages(found):
            def finalize_options(self):
                super().finalize_options()
                # A wheel has a directory for that, beside the one for other data.
                self.install_dir = str(pathlib.Path(self.install_dir).parent / 'purelib')

        return InstallBesidePackages

    def has_data(self):
        """Tell an editable installation, which asks for this name, that there are data files."""
        return self.has_data_files()


setuptools.setup(setup_requires=['pbr>=6.1.1'], pbr=True, distclass=Distribution)
