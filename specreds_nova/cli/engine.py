# SPDX-License-Identifier: Apache-2.0
"""The command ``specreds-engine``."""

from collections.abc import Sequence

from oslo_service import backend


def main(argv: Sequence[str] | None = None) -> int:
    """Run an engine with native threads; return the exit status."""
    # oslo.messaging uses green threads unless another backend is chosen before its import.
    if backend.get_backend_type() is None:
        backend.init_backend(backend.BackendType.THREADING)
    from specreds_nova.engine import main as engine

    return engine.main(argv)
