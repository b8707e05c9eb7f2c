"""One reference to the arrays that compiled code works on, to be handed from function to function.

As a tuple, 45 arrays are some 400 arguments of every call, and code that takes a minute to compile and a second to
load. Nothing is counted by reference there (`_nrt`): whoever calls has the arrays, and they stay where they are.
"""

from functools import partial
from typing import Any

import numba as nb
from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, lower_getattr_generic, models, register_model

njit = partial(nb.njit, _nrt=False)


class _Reference(types.Type):
    def __init__(self, held: types.NamedTuple) -> None:
        self.held = held
        super().__init__(f"reference to {held}")


@register_model(_Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, models_of: Any, kind: _Reference) -> None:
        super().__init__(models_of, kind, models_of.lookup(kind.held).get_value_type().as_pointer())


@infer_getattr
class _Attributes(AttributeTemplate):
    key = _Reference

    def generic_resolve(self, reference: _Reference, name: str) -> Any:  # type: ignore[override]
        held = reference.held
        return held.types[held.fields.index(name)] if name in held.fields else None


@lower_getattr_generic(_Reference)
def _load(context: Any, builder: Any, reference: _Reference, pointer: Any, name: str) -> Any:
    place = cgutils.gep_inbounds(builder, pointer, 0, reference.held.fields.index(name))
    return builder.load(place)


@intrinsic
def held(typing_context: Any, arrays: Any) -> Any:
    """A reference to the arrays of a tuple, as long as the function runs that asks for it."""

    def store(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return cgutils.alloca_once_value(builder, given[0])

    return _Reference(arrays)(arrays), store
