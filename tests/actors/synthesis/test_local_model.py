"""The local model is a function of its prompt, and its answers are in the grammar."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.synthesis.answer_grammar import NoFinding, UnderstandingDraft, read_answer
from actors.synthesis.local_model import LocalModel
from actors.synthesis.model_client import ANSWER_MAX_BYTES, ModelCall, ModelParameters
from actors.synthesis.prompt import PromptSource, assemble

pytestmark = pytest.mark.anyio


async def answer(query, *texts):
    prompt = assemble(
        query, [PromptSource(text, {"Title": "No content. Truly."}) for text in texts]
    )
    call = ModelCall(prompt.text, ModelParameters(), prompt.system_chars)
    return await LocalModel().complete(call)


async def test_it_quotes_the_sentence_that_shares_most_words_with_the_question():
    text = "The court met. The defendant owed a duty of care! It was late."
    reply = await answer("Which duty of care?", text, "Nothing here fits")
    draft = read_answer(reply.text, may_search=False)

    assert isinstance(draft, UnderstandingDraft)
    assert [(span.source, span.quote) for span in draft.source_spans] == [
        ("doc-1", "The defendant owed a duty of care!"),
        ("doc-2", "Nothing here fits"),
    ]
    assert (reply.model_provider, reply.model_version) == ("local", "rotulus-local-1")


async def test_without_a_word_to_quote_it_finds_nothing():
    for texts in ([], ["", " \n ", "?!"]):
        assert isinstance(
            read_answer((await answer("Why?", *texts)).text, may_search=False), NoFinding
        )


async def test_the_longest_sources_stay_within_an_answer():
    reply = await answer("x" * 4096, *["\U0001f600" * 65536] * 3, *["<&>" * 400] * 61)
    assert len(reply.text.encode()) <= ANSWER_MAX_BYTES
    read_answer(reply.text, may_search=False)


@pytest.mark.spec("K16")
@given(query=st.text(min_size=1), texts=st.lists(st.text(), max_size=4))
async def test_it_is_deterministic_and_quotes_word_for_word(query, texts):
    first, again = await answer(query, *texts), await answer(query, *texts)
    draft = read_answer(first.text, may_search=False)

    assert first == again
    if isinstance(draft, UnderstandingDraft):
        for span in draft.source_spans:
            assert span.quote in texts[int(span.source.removeprefix("doc-")) - 1]


@pytest.mark.spec("§6.4")
def test_every_parameter_is_in_the_hash():
    plain = ModelParameters()
    changes = {
        "temperature": 0.5,
        "top_p": 0.5,
        "max_tokens": 7,
        "tools": ("search_sources",),
        "grammar": {"type": "object"},
        "prompt_caching": False,
    }

    assert set(changes) == set(ModelParameters.model_fields)
    hashes = {ModelParameters(**{name: value}).hash() for name, value in changes.items()}
    assert len(hashes | {plain.hash()}) == len(changes) + 1
    assert ModelParameters().hash() == plain.hash()
