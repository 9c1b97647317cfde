"""The TypeScript SDK of the protocol, in a minimal loop between it and a model."""

from .base import PROMPT
from .frameworks import Framework


class TypeScriptSDK(Framework):
    name = "typescript-sdk"

    def command(self):
        script = self.program_file("typescript_sdk_program.mjs")
        sdk = self.module("@modelcontextprotocol/sdk/dist/esm/client")
        return [self.node(), script, sdk, self.model_url, self.shim, PROMPT]


CLIENT = TypeScriptSDK
