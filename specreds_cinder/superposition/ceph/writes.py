# SPDX-License-Identifier: Apache-2.0
"""Writes that a full pool admits.

A full pool holds every other write back until it has space again. What a decision, or a removal,
writes is small, and lets the overlays be removed, which frees space. A creation waits.
"""

from typing import Any

import rados

# LIBRADOS_OPERATION_FULL_TRY and _FULL_FORCE of Ceph's include/rados/librados.h, which
# python-rados lacks. The first one lets an operation pass that needs no space, also if an OSD has
# reached its fail-safe limit; the second one lets it take space.
_FULL_TRY = 64
_FULL_FORCE = 128


def operate(io: Any, op: Any, name: str) -> None:
    """Carry out a write operation on an object, also in a full pool."""
    io.operate_write_op(op, name, flags=_FULL_TRY | _FULL_FORCE)


def remove(io: Any, name: str) -> None:
    """Remove an object, also in a full pool.

    :raises rados.ObjectNotFound: there is no such object
    """
    with rados.WriteOpCtx() as op:
        op.remove()
        operate(io, op, name)


def execute(io: Any, name: str, method: str, data: bytes) -> None:
    """Execute a method of RBD's object class on an object, also in a full pool.

    :raises rados.ObjectNotFound: there is no such object, or the object lacks what is removed
    """
    with rados.WriteOpCtx() as op:
        op.execute('rbd', method, data)
        operate(io, op, name)
