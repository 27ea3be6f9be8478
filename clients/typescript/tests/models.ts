import { type Answer, json } from "./support.js";

/** The answer of a model of Anthropic's API. */
export function message(content: object[], stop_reason = "end_turn"): Answer {
  const usage = { input_tokens: 1, output_tokens: 1 };
  return json({ id: "msg_1", type: "message", role: "assistant", model: "scripted", content, stop_reason, stop_sequence: null, usage });
}

/** The answer of a model of OpenAI's Responses API. */
export function response(id: string, text: string): Answer {
  const content = [{ type: "output_text", text, annotations: [] }];
  const tokens = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  return json({
    id,
    object: "response",
    created_at: 0,
    status: "completed",
    model: "scripted",
    error: null,
    incomplete_details: null,
    instructions: null,
    output: [{ id: `msg_${id}`, type: "message", role: "assistant", status: "completed", content }],
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools: [],
    usage: { ...tokens, input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } },
  });
}
