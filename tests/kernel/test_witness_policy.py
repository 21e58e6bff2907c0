"""Policies (C2SP tlog-policy): what a file says, and which witnesses are enough."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.proof.signing_keys import KeyKind, SeedKey
from kernel.proof.witness_policy import POLICY_BYTES_MAX, PolicyInvalid, WitnessPolicy
from tests.signed_log import ORIGIN, log_key, witness_key

LOG = log_key().verifier.vkey
KEYS = [witness_key(number).verifier.vkey for number in range(6)]

# The example of tlog-policy, with keys.
EXAMPLE = f"""
log {LOG} https://example.com/log

witness X1 {KEYS[0]}
witness X2 {KEYS[1]}\thttps://x2.example
  witness X3 {KEYS[2]}
group X-witnesses 2 X1 X2 X3

# Another organisation
witness Y1 {KEYS[3]}
witness Y2 {KEYS[4]}
witness Y3 {KEYS[5]}
group Y-witnesses any Y1 Y2 Y3

group X-and-Y all X-witnesses Y-witnesses
quorum X-and-Y
"""


def read(text):
    return WitnessPolicy.of_bytes(text.encode())


def test_the_example_of_the_specification_is_read():
    policy = read(EXAMPLE)
    assert policy.of_log(ORIGIN) == (log_key().verifier,)
    assert policy.of_log("example.com/other") == ()
    assert [witness.name for witness in policy.witnesses] == ["X1", "X2", "X3", "Y1", "Y2", "Y3"]
    assert [witness.url for witness in policy.witnesses][:2] == [None, "https://x2.example"]


def test_a_policy_is_written_as_it_is_read():
    policy = WitnessPolicy.of_bytes(EXAMPLE.replace("X3", "\u00e9").encode("latin-1"))
    assert WitnessPolicy.of_bytes(policy.to_bytes()) == policy
    assert WitnessPolicy().to_bytes() == b"quorum none\n"


@pytest.mark.parametrize(
    ("cosigned", "is_met"),
    [
        (["X1", "X2", "Y1"], True),
        (["X1", "X2", "X3", "Y1", "Y2", "Y3"], True),
        (["X1", "X2", "X3"], False),
        (["X1", "Y1", "Y2", "Y3"], False),
        (["X-and-Z"], False),
        ([], False),
    ],
)
def test_a_quorum_is_made_of_groups(cosigned, is_met):
    assert read(EXAMPLE).is_met(cosigned) is is_met


def test_a_quorum_may_be_a_witness_or_nobody():
    single = read(f"witness W {KEYS[0]}\nquorum W")
    assert (single.is_met(["W"]), single.is_met([])) == (True, False)
    assert read("quorum none\n").is_met([])


def test_a_log_may_have_a_key_of_each_kind():
    other = log_key(kind=KeyKind.ML_DSA_44).verifier
    policy = read(f"log {LOG}\nlog {other.vkey}\nquorum none")
    assert policy.of_log(ORIGIN) == (log_key().verifier, other)


def test_names_are_octets():
    policy = WitnessPolicy.of_bytes(
        b"witness K %s\nwitness \xe2\x84\xaa %s\nwitness \xff %s\ngroup g any \xff\nquorum g\n"
        % tuple(key.encode() for key in KEYS[:3])
    )
    [*_, last] = policy.witnesses
    assert policy.is_met([last.name])
    assert not policy.is_met(["K"])


def test_many_groups_in_groups_are_no_matter():
    lines = [f"witness g0 {KEYS[0]}"]
    lines += [f"group g{number + 1} all g{number}" for number in range(5000)]
    assert read("\n".join([*lines, "quorum g5000"])).is_met(["g0"])


AS_LOG = SeedKey("w", KeyKind.ED25519, bytes([0]) * 32).verifier.vkey
W = f"witness W {KEYS[0]}\nwitness V {KEYS[1]}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "one line `quorum`, which may be `quorum none`"),
        ("quorum none\nquorum none", "one line `quorum`"),
        ("quorum W", "line 1 .*names nothing"),
        (f"{W}quorum", "line 3 .*one name"),
        ("quorum none\nwitness W", "line 2 .*a key"),
        ("quorum none\nwitness", "a key"),
        (f"witness W {KEYS[0]} u v\nquorum none", "a key"),
        (f"witness none {KEYS[0]}\nquorum none", "names something"),
        (f"{W}witness W {KEYS[2]}\nquorum none", "names something"),
        (f"{W}group W any V\nquorum none", "names something"),
        (f"{W}witness U {KEYS[0]}\nquorum none", "key is there"),
        (f"{W}log {AS_LOG}\nquorum none", "key is there"),
        (f"log {LOG}\nlog {LOG}\nquorum none", "key is there"),
        (f"log {KEYS[0]}\nquorum none", "does not sign this"),
        (f"witness W {LOG}\nquorum none", "does not sign this"),
        ("log junk\nquorum none", "no key"),
        (f"{W}group g 3 W V\nquorum g", "more than the members"),
        (f"{W}group g 0 W\nquorum g", "decimal"),
        (f"{W}group g 01 W\nquorum g", "decimal"),
        (f"{W}group g \u0661 W\nquorum g", "decimal"),
        (f"{W}group g any\nquorum g", "members"),
        (f"{W}group g any none\nquorum g", "names nothing"),
        (f"{W}group g any g\nquorum g", "names nothing"),
        (f"{W}group g all W W\nquorum g", "member already"),
        (f"{W}group g any W\ngroup h any W\nquorum g", "member already"),
        (f"{W}quorum\u00a0W", "begins with neither"),
        ("quorum none\r\n", "control characters"),
        ("nonsense\nquorum none", "line 1 .*begins with neither"),
        ("#" * (POLICY_BYTES_MAX + 1), "at most"),
    ],
)
def test_what_is_no_policy_is_refused_by_its_line(text, problem):
    with pytest.raises(PolicyInvalid, match=problem):
        read(text)


@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "witness ",
                    "group ",
                    "quorum ",
                    "log ",
                    "none",
                    "any ",
                    "all ",
                    "1 ",
                    "a ",
                    "b ",
                ),
                *("\n", "\t", "#", "\xff", f"{KEYS[0]} ", f"{KEYS[1]} ", f"{LOG} "),
            ]
        ),
        max_size=40,
    )
)
def test_whatever_a_file_holds_is_a_policy_or_refused(parts):
    try:
        policy = WitnessPolicy.of_bytes("".join(parts).encode("latin-1"))
    except PolicyInvalid:
        return
    policy.is_met([])
