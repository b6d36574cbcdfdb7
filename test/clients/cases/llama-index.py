# packages: llama-index-llms-openai-like
import os

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

llm = OpenAILike(
    model="hermes-agent",
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
    is_chat_model=True,
    is_function_calling_model=True,
)
answer = llm.chat([ChatMessage(role="user", content='play:[{"text": "one"}]')])
assert answer.message.content == "one", answer
stream = llm.stream_chat([ChatMessage(role="user", content='play:[{"text": ["t", "wo"]}]')])
assert "".join(part.delta or "" for part in stream) == "two"
