//! Finish reasons, those outside the API included.

/// What a finish reason means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinishMeaning {
    /// The answer is complete.
    Stop,
    /// The output reached its cap.
    Length,
    /// The answer calls tools.
    ToolUse,
    /// The server failed; the same request may succeed later.
    Failed,
    /// The server had no room.
    Full,
    /// The request did not fit the context window.
    Overflow,
    /// It says nothing: other signals decide.
    Unsaid,
}

/// Finish reasons in lower case, as they are compared, with their meaning and who sends them.
/// Any other one is a refusal by model or server.
pub(crate) const FINISH_REASONS: &[(&str, FinishMeaning, &str)] = &[
    ("stop", FinishMeaning::Stop, "the API"),
    ("length", FinishMeaning::Length, "the API"),
    ("tool_calls", FinishMeaning::ToolUse, "the API"),
    ("function_call", FinishMeaning::ToolUse, "the API, old form"),
    ("end", FinishMeaning::Stop, "routers"),
    ("eos", FinishMeaning::Stop, "Together"),
    (
        "eos_token",
        FinishMeaning::Stop,
        "Text Generation Inference",
    ),
    ("end_turn", FinishMeaning::Stop, "routers to Anthropic"),
    (
        "stop_sequence",
        FinishMeaning::Stop,
        "routers to Anthropic, Text Generation Inference",
    ),
    ("complete", FinishMeaning::Stop, "routers to Cohere"),
    ("completed", FinishMeaning::Stop, "routers to Responses"),
    (
        "max_tokens",
        FinishMeaning::Length,
        "routers to Anthropic and Gemini",
    ),
    ("model_length", FinishMeaning::Length, "Mistral"),
    ("tool_use", FinishMeaning::ToolUse, "routers to Anthropic"),
    ("tool_call", FinishMeaning::ToolUse, "custom servers"),
    ("error", FinishMeaning::Failed, "OpenRouter, Mistral"),
    ("network_error", FinishMeaning::Failed, "Z.ai"),
    ("abort", FinishMeaning::Failed, "vLLM, SGLang"),
    (
        "insufficient_system_resource",
        FinishMeaning::Full,
        "DeepSeek",
    ),
    (
        "model_context_window_exceeded",
        FinishMeaning::Overflow,
        "Z.ai, routers to Anthropic",
    ),
    ("unknown", FinishMeaning::Unsaid, "custom servers"),
    ("null", FinishMeaning::Unsaid, "custom servers"),
    ("none", FinishMeaning::Unsaid, "custom servers"),
    ("load", FinishMeaning::Unsaid, "Ollama"),
    (
        "finish_reason_unspecified",
        FinishMeaning::Unsaid,
        "routers to Gemini",
    ),
];
