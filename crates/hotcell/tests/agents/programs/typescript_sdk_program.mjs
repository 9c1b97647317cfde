// A minimal agent on the TypeScript SDK: passes tools to a model and results back to it.
// Arguments: directory of the SDK's client, model URL, program, prompt.

const [sdk, modelUrl, program, prompt] = process.argv.slice(2);
const { Client } = await import(`${sdk}/index.js`);
const { StdioClientTransport } = await import(`${sdk}/stdio.js`);

const client = new Client({ name: "typescript-agent", version: "1.0.0" });
await client.connect(
  new StdioClientTransport({
    command: program,
    args: ["serve"],
    env: { HOTCELL_STATE_DIR: process.env.HOTCELL_STATE_DIR },
  }),
);
const { tools } = await client.listTools();
const functions = tools.map(({ name, description, inputSchema }) => ({
  type: "function",
  function: { name, description, parameters: inputSchema },
}));

async function askModel(messages) {
  const response = await fetch(`${modelUrl}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "scripted", messages, tools: functions }),
  });
  return (await response.json()).choices[0].message;
}

// The text and the images of a result, as OpenAI's format has them.
function content(block) {
  if (block.type === "image") {
    const url = `data:${block.mimeType};base64,${block.data}`;
    return { type: "image_url", image_url: { url } };
  }
  return { type: "text", text: block.text ?? JSON.stringify(block) };
}

async function callTool({ function: { name, arguments: text } }) {
  const request = { name, arguments: JSON.parse(text) };
  try {
    const options = { onprogress: () => {}, resetTimeoutOnProgress: true };
    const result = await client.callTool(request, undefined, options);
    return result.content.map(content);
  } catch (error) {
    return [{ type: "text", text: String(error) }];
  }
}

const messages = [{ role: "user", content: prompt }];
for (;;) {
  const message = await askModel(messages);
  messages.push(message);
  if (!message.tool_calls) {
    console.log(message.content);
    break;
  }
  for (const call of message.tool_calls) {
    messages.push({ role: "tool", tool_call_id: call.id, content: await callTool(call) });
  }
}
await client.close();
