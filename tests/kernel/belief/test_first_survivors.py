"""The first few survivors are the head of all of them."""

from hypothesis import given
from hypothesis import strategies as st

from kernel.belief.survivors import Survivors
from kernel.belief.universe import Universe

ids = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=40)


@given(ids, st.data(), st.integers(0, 12))
def test_first_is_the_head_of_the_whole_list(names, data, limit):
    survivors = Survivors(Universe(names))
    survivors.strike(data.draw(st.lists(st.sampled_from(names))) if names else [])
    assert survivors.first(limit) == survivors.ids()[:limit]
