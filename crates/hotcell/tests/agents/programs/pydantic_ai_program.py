"""An agent of Pydantic AI with Hotcell as its tools. Arguments: model URL, program, prompt."""

import asyncio
import os
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits


async def main(model_url, program, prompt):
    provider = OpenAIProvider(base_url=f"{model_url}/v1", api_key="none")
    environment = {"HOTCELL_STATE_DIR": os.environ["HOTCELL_STATE_DIR"]}
    server = MCPToolset(StdioTransport(program, ["serve"], env=environment))
    agent = Agent(OpenAIChatModel("scripted", provider=provider), toolsets=[server])
    async with agent:
        result = await agent.run(prompt, usage_limits=UsageLimits(request_limit=400))
    print(result.output)


asyncio.run(main(*sys.argv[1:]))
