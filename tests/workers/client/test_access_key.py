"""A key that a client is given is one word, or is named as what it is not."""

import pytest

from workers.client import GatewayError
from workers.client.access_key import key_in


def test_a_key_of_a_file_or_of_a_variable_is_one_word(tmp_path):
    (tmp_path / "key").write_text("rot_a_b\n")
    assert key_in({"ROTULUS_KEY_FILE": str(tmp_path / "key")}) == "rot_a_b"
    assert key_in({"ROTULUS_KEY": " rot_a_b "}) == "rot_a_b"
    (tmp_path / "key").write_text("person:ada, until then\nrot_a_b\n")
    for named in ({"ROTULUS_KEY_FILE": str(tmp_path / "key")}, {"ROTULUS_KEY": "rot_a b"}):
        with pytest.raises(GatewayError) as refused:
            key_in(named)
        assert refused.value.code == "access_key_unreadable"
        assert "rot_" not in str(refused.value)
