# SPDX-License-Identifier: Apache-2.0
"""The guests of the cloud: small servers that boot in seconds, also where there is no KVM.

``image('g1')`` is a kernel with busybox, ``image('g2')`` is PostgreSQL on a file system, and
``image('g3')`` is an ordinary Debian with PostgreSQL, which takes longer. All are made on this
machine from the distribution's own packages.
"""

from cloud.guests.accelerator import accelerator
from cloud.guests.images import describe
from cloud.guests.images import image

__all__ = ('accelerator', 'describe', 'image')
