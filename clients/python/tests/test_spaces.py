"""The rule by which names become spaces and ids."""

from __future__ import annotations

from itertools import count
from urllib.parse import unquote

import pytest

from agent_memory import InvalidInput
from agent_memory.spaces import id_in, id_moved, names_of, space_of


def test_names_come_back_from_a_space_of_their_own() -> None:
    names = ["", "a", "-", "/", ":", "%", "%2F", "a/", "/a", "a-", "A", "é", "\0", "💡", "+"]
    lists = [(one, *rest) for one in names for rest in [(), *((two,) for two in names), *((two, one) for two in names)]]
    spaces = [space_of(*each) for each in lists]
    assert len(set(spaces)) == len(lists) and [names_of(space) for space in spaces] == lists
    for wrong in ((), ("\ud800",)):
        with pytest.raises(InvalidInput):
            space_of(*wrong)


def test_an_id_fits_its_limit_and_is_that_of_one_name_in_one_space() -> None:
    ids = {id_in(space, name) for space in "ab" for name in ("a", "-" * 66, "-" * 67, "é" * 2000)}
    assert len(ids) == 8 and max(map(len, ids)) <= 256
    assert all(id_moved(id_in("a", name), "b") == id_in("b", name) for name in ("a", "-" * 67))


def test_no_name_is_encoded_as_the_hash_of_another() -> None:
    for number in count():
        long = f"{'x' * 201}{number}"
        hash = id_in("a", long).split("/")[1]
        assert hash[0] == "+" and len(hash) == 65
        # The name that would be encoded as the hash of some long name, if hashes were written like encoded characters.
        short = unquote(hash.replace("+", "%"), errors="replace")
        if space_of(short) == hash.replace("+", "%"):
            assert id_in("a", short) != id_in("a", long)
            return
