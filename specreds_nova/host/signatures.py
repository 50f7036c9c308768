# SPDX-License-Identifier: Apache-2.0
"""Pass on the arguments of Nova's methods in every release of Nova.

The arguments of Nova's methods differ from release to release; those that the plug-in reads keep
their names. All arguments are therefore passed on unchanged, and read by the signature of the
installed method.
"""

from collections.abc import Callable, Mapping
import contextlib
import functools
import inspect
from typing import Any


def arguments(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Mapping[str, Any]:
    """Return the arguments of a call by the names that the method gives them, defaults included.

    :raises TypeError: the method cannot be called with them
    """
    bound = inspect.signature(method).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def around(base: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for the methods of a subclass that do something around the base's own.

    The decorated function names the arguments that it reads, and returns a context manager. What
    the function becomes takes, and passes on to the base's method, all that the base's method
    takes, and returns what that returns.

    :raises TypeError: the base's method has no argument of such a name
    """
    def decorate(context: Callable[..., Any]) -> Callable[..., Any]:
        inherited = getattr(base, context.__name__)
        signature = inspect.signature(inherited)
        read = tuple(inspect.signature(context).parameters)[1:]
        missing = [name for name in read if name not in signature.parameters]
        if missing:
            raise TypeError(f'{inherited.__qualname__}() has no argument {", ".join(missing)}')

        @functools.wraps(context)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            values = arguments(inherited, self, *args, **kwargs)
            with context(self, **{name: values[name] for name in read}):
                return getattr(base, context.__name__)(self, *args, **kwargs)

        # Nova compares the signatures of drivers.
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method
    return decorate


def before(base: type) -> Callable[[Callable[..., None]], Callable[..., Any]]:
    """Return a decorator for the methods of a subclass that do something before the base's own.

    As for :func:`around`, but the decorated function returns None.

    :raises TypeError: the base's method has no argument of such a name
    """
    def decorate(first: Callable[..., None]) -> Callable[..., Any]:
        @functools.wraps(first)
        def context(*args: Any, **kwargs: Any) -> contextlib.AbstractContextManager[None]:
            first(*args, **kwargs)
            return contextlib.nullcontext()
        return around(base)(context)
    return decorate
