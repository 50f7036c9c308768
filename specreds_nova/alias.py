# SPDX-License-Identifier: Apache-2.0
"""Make ``nova.virt.specreds`` a name of this package's driver.

Nova finds a ``compute_driver`` only below ``nova.virt``. ``specreds.pth`` imports this module at
each start of Python, so the module imports nothing until somebody asks for the alias.
"""

import sys

# As in typing, which takes longer to import than the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    import importlib.machinery
    import types
    from typing import Any

ALIAS = 'nova.virt.specreds'
REAL = 'specreds_nova.host.entry'


class _Alias:
    """Finds the alias, and loads the real module under both names."""

    def find_spec(self, fullname: str, path: 'Sequence[str] | None' = None,
                  target: 'types.ModuleType | None' = None
                  ) -> 'importlib.machinery.ModuleSpec | None':
        """Return the spec of the alias, and None for other names."""
        del path, target
        if fullname != ALIAS:
            return None
        import importlib.machinery
        # A loader without the base class, whose module imports many others.
        loader: Any = self
        return importlib.machinery.ModuleSpec(fullname, loader)

    def create_module(self, spec: 'importlib.machinery.ModuleSpec') -> 'types.ModuleType':
        """Return a module with the driver, never the real one, whose spec would be replaced."""
        import importlib
        import types
        module = types.ModuleType(spec.name)
        real = importlib.import_module(REAL)
        module.__doc__ = real.__doc__
        for name in real.__all__:
            setattr(module, name, getattr(real, name))
        return module

    def exec_module(self, module: 'types.ModuleType') -> None:
        """Do nothing: the module is complete."""


def install() -> None:
    """Install the alias. May be repeated."""
    if not any(type(finder).__qualname__ == _Alias.__qualname__
               and type(finder).__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.append(_Alias())


install()
