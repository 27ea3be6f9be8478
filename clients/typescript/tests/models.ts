import { type Answer, json } from "./support.js";

/** What a model of Anthropic's API answers. */
export function message(content: object[], stop_reason = "end_turn"): Answer {
  const usage = { input_tokens: 1, output_tokens: 1 };
  return json({ id: "msg_1", type: "message", role: "assistant", model: "scripted", content, stop_reason, stop_sequence: null, usage });
}
