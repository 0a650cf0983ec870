"""Specs as algebra: nesting is only notation, and what is no spec is refused in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebrl.errors import GraphError
from ebrl.frontend.spec import DTYPES, Spec, Tensor

# Machines that run several suites at once are slow; nothing here depends on time.
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
tensors = st.builds(
    Tensor,
    st.sampled_from(DTYPES),
    st.lists(st.integers(1, 64), max_size=4).map(tuple),
)
names = st.text("abcdefgh_", min_size=1, max_size=6)
trees = st.recursive(tensors, lambda inner: st.dictionaries(names, inner, min_size=1, max_size=3))


@quick
@given(st.dictionaries(names, trees, min_size=1, max_size=4))
def test_nesting_is_only_a_way_of_writing(tree):
    spec = Spec(tree)
    assert Spec(dict(spec)) == spec
    assert (
        Spec(
            {
                name: Spec({name: value})[name] if isinstance(value, Tensor) else Spec(value)
                for name, value in tree.items()
            }
        )
        == spec
    )


@quick
@given(st.dictionaries(names, tensors, min_size=1, max_size=5))
def test_equal_specs_have_equal_hashes_whatever_their_order(leaves):
    turned = dict(reversed(leaves.items()))
    assert Spec(leaves) == Spec(turned)
    assert hash(Spec(leaves)) == hash(Spec(turned))


@quick
@given(st.dictionaries(names, tensors, min_size=1, max_size=5))
def test_the_bytes_of_a_spec_are_those_of_its_arrays(leaves):
    arrays = [np.empty(tensor.shape, tensor.dtype) for tensor in leaves.values()]
    assert Spec(leaves).nbytes == sum(array.nbytes for array in arrays)


@quick
@given(st.dictionaries(names, tensors, min_size=1, max_size=4), names)
def test_going_one_level_down_puts_a_name_before_every_path(leaves, name):
    spec = Spec(leaves)
    assert list(spec.under(name)) == [f"{name}/{path}" for path in spec]
    assert list(spec.under(name).values()) == list(spec.values())


def test_a_bare_tensor_takes_the_name_it_is_put_under():
    assert dict(Spec("float32", (3,)).under("obs")) == {"obs": Tensor("float32", (3,))}


@quick
@given(tensors, tensors)
def test_the_union_of_two_specs_holds_both(a, b):
    assert dict(Spec({"a": a}) | Spec({"b": b})) == {"a": a, "b": b}


def test_a_dtype_may_be_written_in_any_way_numpy_knows():
    assert Spec("f4", (2,)) == Spec("float32", (2,)) == Spec("single", (2,))


def test_a_symbol_makes_a_spec_open():
    assert not Spec("float32", ("n", 3)).concrete
    assert Spec("float32", (2, 3)).concrete


def made(*arguments: Any) -> Spec:
    """What a user without a type checker writes."""
    return Spec(*arguments)


@pytest.mark.parametrize(
    ("what", "hint"),
    [
        (lambda: made("flaot32", (3,)), "float32"),
        (lambda: made("object", (3,)), "bool"),
        (lambda: made("float32", (0,)), "positive"),
        (lambda: made("float32", (3.0,)), "positive"),
        (lambda: made("float32", (True,)), "positive"),
        (lambda: made("float32", ("two words",)), "positive"),
        (lambda: made("float32", 3), "comma"),
        (lambda: made({}), "at least one"),
        (lambda: made({"a": {}}), "at least one"),
        (lambda: made({3: Spec("float32")}), "string"),
        (lambda: made({"rgb": "uint8"}), "Spec("),
        (lambda: made(7), "Spec("),
    ],
)
def test_what_is_no_spec_is_refused_with_the_users_line(what, hint):
    with pytest.raises(GraphError) as caught:
        what()
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code == "spec-invalid"
    assert diagnostic.where.startswith("tests/frontend/test_spec.py:")
    assert hint in diagnostic.hint
