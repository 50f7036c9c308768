# SPDX-License-Identifier: Apache-2.0
"""The public names of ``specreds_cinder.superposition``."""

import subprocess
import sys

import testtools

from specreds_cinder import superposition

_LIBRARIES = ('rados', 'rbd', 'numpy', 'jsonschema', 'qemu')


class FacadeTest(testtools.TestCase):

    def test_each_public_name_can_be_loaded(self) -> None:
        for name in superposition.__all__:
            self.assertIsNotNone(getattr(superposition, name), name)

    def test_other_names_are_missing(self) -> None:
        self.assertFalse(hasattr(superposition, 'Librados'))
        self.assertFalse(hasattr(superposition, 'nothing'))

    def test_states_errors_and_options_need_no_library_of_ceph_or_qemu(self) -> None:
        program = ('import sys; from specreds_cinder import conf; '
                   'from specreds_cinder.superposition import errors, states; '
                   f'sys.exit(any(name in sys.modules for name in {_LIBRARIES}))')
        subprocess.run([sys.executable, '-c', program], check=True, timeout=60)
