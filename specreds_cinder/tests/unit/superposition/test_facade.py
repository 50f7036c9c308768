# SPDX-License-Identifier: Apache-2.0
"""The public names of ``specreds_cinder.superposition``."""

import pathlib
import re
import subprocess
import sys

import testtools

from specreds_cinder import superposition

_PACKAGES = ('bench', 'cloud', 'specreds_cinder', 'specreds_nova', 'tempest_plugin')
# The modules of rooms that other packages import.
_MODULES = {
    'truth': ('record', 'states', 'store'),
    'evidence': ('cut',),
    'exclusion': ('fence',),
    'overlay': ('merge_rate', 'nodes', 'overlay'),
    'steps': (),
    'ceph': ('address', 'cluster', 'overrides', 'volume'),
}
_LIBRARIES = ('rados', 'rbd', 'numpy', 'jsonschema', 'qemu')


class FacadeTest(testtools.TestCase):

    def test_each_public_name_can_be_loaded(self) -> None:
        for name in superposition.__all__:
            self.assertIsNotNone(getattr(superposition, name), name)

    def test_other_names_are_missing(self) -> None:
        self.assertFalse(hasattr(superposition, 'Librados'))
        self.assertFalse(hasattr(superposition, 'nothing'))

    def test_other_packages_use_only_public_names_and_modules(self) -> None:
        package = pathlib.Path(superposition.__file__).parent
        root = package.parent.parent
        for path in sorted(root.glob('*/**/*.py')):
            parts = path.relative_to(root).parts
            if parts[0] not in _PACKAGES or 'tests' in parts or package in path.parents:
                continue
            imported = re.findall(r'^ *from specreds_cinder\.superposition(\S*) import (\w+)',
                                  path.read_text(), re.MULTILINE)
            for room, name in imported:
                public = _MODULES.get(room.removeprefix('.'), superposition.__all__)
                self.assertIn(name, public, str(path))

    def test_states_errors_and_options_need_no_library_of_ceph_or_qemu(self) -> None:
        program = ('import sys; from specreds_cinder import conf; '
                   'from specreds_cinder.superposition import errors; '
                   'from specreds_cinder.superposition.truth import states; '
                   f'sys.exit(any(name in sys.modules for name in {_LIBRARIES}))')
        subprocess.run([sys.executable, '-c', program], check=True, timeout=60)
