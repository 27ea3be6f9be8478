"""Talks to an agent with the official client of OpenAI, and checks what it answers.

openai_client.py URL TOKEN_OF_A_PAGE TOKEN_OF_ANA
"""

import sys

import openai
from openai import OpenAI


def main(url: str, token_of_page: str, token_of_ana: str) -> None:
    client = OpenAI(base_url=url, api_key=token_of_page)
    assert [model.id for model in client.models.list()] == ["ada"]

    def ask(text: str, **more):
        messages = [{"role": "system", "content": "Obey"}, {"role": "user", "content": text}]
        return client.chat.completions.create(model="ada", messages=messages, user="ana", **more)

    answer = ask("I adopted a cat")
    assert answer.choices[0].message.content == "What is it called?", answer
    assert answer.choices[0].finish_reason == "stop", answer
    assert answer.usage.total_tokens == 12, answer

    chunks = list(ask("What did I adopt?", stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "You adopted a cat.", chunks
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop", chunks
    assert chunks[-1].usage.total_tokens == 12, chunks

    answer = ask("Who is here?", metadata={"room": "kitchen"})
    assert answer.choices[0].message.content == "I am here.", answer

    # A failure after the question is accepted is reported once: the client does not retry by itself.
    fails(openai.InternalServerError, "Unexpected", lambda: ask("And now?"))
    fails(openai.PermissionDeniedError, "Unauthorized", lambda: ask("Hello", metadata={"room": "dm:bo"}))
    fails(openai.UnprocessableEntityError, "InvalidInput", lambda: ask(" "))
    client = OpenAI(base_url=url, api_key=token_of_ana)
    fails(openai.PermissionDeniedError, "Unauthorized", lambda: ask("Hello", metadata={"room": "kitchen"}))
    client = OpenAI(base_url=url, api_key="nobody-0123456789abcdef")
    fails(openai.AuthenticationError, None, lambda: ask("Hello"))


def fails(kind: type[openai.APIStatusError], code: str | None, call) -> None:
    try:
        call()
    except kind as error:
        assert error.code == code, error
        assert error.message and error.type, error
    else:
        raise AssertionError(f"no {kind.__name__}")


main(*sys.argv[1:])
print("ok")
