"""An attribute that is found when it is first used, as what it is of comes later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class found_once(Generic[T]):
    """As ``functools.cached_property``, for objects that are used with every request.

    That one asks an object for its ``__dict__``, and before Python 3.13 each attribute of
    the object takes four times as long from then on.
    """

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> T:
        found = self._find(instance)
        setattr(instance, self._name, found)
        return found
