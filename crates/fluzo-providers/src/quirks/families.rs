//! The families of servers. The first that a base URL names counts.

use super::CallOnlyContent::Empty;
use super::ForModels::{self, Named};
use super::IdForm::{AtMost40, Short};
use super::MaxTokensField::MaxTokens;
use super::Replay::Required;
use super::{Family, Quirks, ThinkingFormat, USUAL};

/// Servers that know neither `store` nor the role `developer`.
const PLAIN: Quirks = Quirks {
    store: false,
    developer_role: ForModels::None,
    ..USUAL
};

/// Servers that load open models on the machine at hand: chat templates know the usual roles.
const LOCAL: Quirks = Quirks {
    max_tokens_field: MaxTokens,
    long_cache: false,
    ..PLAIN
};

/// All families.
pub(crate) const FAMILIES: &[Family] = &[
    Family {
        name: "OpenAI",
        providers: &["openai", "azure-openai-responses"],
        urls: &["api.openai.com", "openai.azure.com"],
        quirks: Quirks {
            ids: AtMost40,
            ..USUAL
        },
        habits: "ids `call_…` of at most 40 characters; every fragment has an index; o-series and gpt-5 models refuse `max_tokens`",
    },
    Family {
        name: "OpenRouter",
        providers: &["openrouter"],
        urls: &["openrouter.ai"],
        quirks: Quirks {
            developer_role: Named(&["anthropic/", "openai/"]),
            cache_marks: Named(&["anthropic/"]),
            thinking_format: ThinkingFormat::Openrouter,
            ..USUAL
        },
        habits: "thinking in `reasoning` and `reasoning_details`, signatures in the latter; comments `: OPENROUTER PROCESSING` while waiting; `error` finish with an error object beside it",
    },
    Family {
        name: "Groq",
        providers: &["groq"],
        urls: &["api.groq.com"],
        quirks: Quirks {
            store: false,
            ..USUAL
        },
        habits: "thinking in `reasoning`, refuses `reasoning_content` in messages; usage in `x_groq`; failed calls are reported as 400 `tool_use_failed`",
    },
    Family {
        name: "xAI",
        providers: &["xai"],
        urls: &["api.x.ai"],
        quirks: Quirks {
            reasoning_effort: false,
            ..PLAIN
        },
        habits: "thinking in `reasoning_content`; whole calls in one fragment",
    },
    Family {
        name: "DeepSeek",
        providers: &["deepseek"],
        urls: &["deepseek.com"],
        quirks: Quirks {
            reasoning: Required,
            thinking_format: ThinkingFormat::Deepseek,
            ..PLAIN
        },
        habits: "thinking in `reasoning_content`, which must go back with answers that call tools; finish `insufficient_system_resource` when it is full",
    },
    Family {
        name: "Mistral",
        providers: &["mistral"],
        urls: &["api.mistral.ai"],
        quirks: Quirks {
            ids: Short,
            max_tokens_field: MaxTokens,
            stream_usage: false,
            thinking_as_text: true,
            tool_result_name: true,
            long_cache: false,
            ..PLAIN
        },
        habits: "refuses unknown fields with 422; sends usage unasked; thinking as parts of the content; ids of nine letters and digits; finish `model_length`",
    },
    Family {
        name: "Cerebras",
        providers: &["cerebras"],
        urls: &["cerebras.ai"],
        quirks: PLAIN,
        habits: "thinking in `reasoning`; refuses unknown fields; 429 `queue_exceeded` when it is full",
    },
    Family {
        name: "Together",
        providers: &["together"],
        urls: &["api.together."],
        quirks: Quirks {
            reasoning_effort: false,
            max_tokens_field: MaxTokens,
            thinking_format: ThinkingFormat::Together,
            strict: false,
            long_cache: false,
            ..PLAIN
        },
        habits: "thinking in `reasoning`; finish `eos`",
    },
    Family {
        name: "Fireworks",
        providers: &["fireworks"],
        urls: &["api.fireworks.ai"],
        quirks: Quirks {
            max_tokens_field: MaxTokens,
            session_affinity: true,
            ..PLAIN
        },
        habits: "thinking in `reasoning_content`; refuses unknown fields; keeps a session on one machine by header",
    },
    Family {
        name: "Z.ai",
        providers: &["zai", "zai-coding-cn"],
        urls: &["api.z.ai", "open.bigmodel.cn"],
        quirks: Quirks {
            reasoning_effort: false,
            thinking_format: ThinkingFormat::Zai,
            ..PLAIN
        },
        habits: "thinking in `reasoning_content`; business codes such as 1302 (rate) and 1113 (balance) in the error; finish `sensitive`, `network_error`, `model_context_window_exceeded`",
    },
    Family {
        name: "Qwen (DashScope)",
        providers: &["qwen", "dashscope", "alibaba"],
        urls: &["dashscope"],
        quirks: Quirks {
            call_only_content: Empty,
            max_tokens_field: MaxTokens,
            thinking_format: ThinkingFormat::Qwen,
            reasoning_effort: false,
            long_cache: false,
            ..PLAIN
        },
        habits: "thinking in `reasoning_content`; the id of a call only in its first fragment, empty in later ones",
    },
    Family {
        name: "Moonshot",
        providers: &["moonshotai", "moonshotai-cn"],
        urls: &["api.moonshot."],
        quirks: Quirks {
            reasoning_effort: false,
            max_tokens_field: MaxTokens,
            strict: false,
            ..PLAIN
        },
        habits: "thinking in `reasoning_content`, which must go back within a round of tools; ids `functions.NAME:N`; refuses empty messages",
    },
    Family {
        name: "Kimi For Coding",
        providers: &["kimi-coding"],
        urls: &["api.kimi.com"],
        quirks: USUAL,
        habits: "in Anthropic Messages thinking has no signature and must go back",
    },
    Family {
        name: "Xiaomi MiMo",
        providers: &[
            "xiaomi",
            "xiaomi-token-plan-ams",
            "xiaomi-token-plan-cn",
            "xiaomi-token-plan-sgp",
        ],
        urls: &["xiaomimimo.com"],
        quirks: USUAL,
        habits: "in Anthropic Messages thinking has no signature and must go back",
    },
    Family {
        name: "NVIDIA",
        providers: &["nvidia"],
        urls: &["integrate.api.nvidia.com"],
        quirks: Quirks {
            reasoning_effort: false,
            max_tokens_field: MaxTokens,
            strict: false,
            long_cache: false,
            ..PLAIN
        },
        habits: "thinking in `reasoning_content`; errors as `detail` texts",
    },
    Family {
        name: "Hugging Face",
        providers: &["huggingface"],
        urls: &["router.huggingface.co"],
        quirks: Quirks {
            max_tokens_field: MaxTokens,
            long_cache: false,
            ..PLAIN
        },
        habits: "a router: ids, indexes and names of fields are those of the server behind it",
    },
    Family {
        name: "GitHub Models",
        providers: &["github", "github-models"],
        urls: &["models.github.ai", "models.inference.ai.azure.com"],
        quirks: Quirks {
            store: false,
            ids: AtMost40,
            ..USUAL
        },
        habits: "waits of hours or days in `retry-after`; 413 `tokens_limit_reached` for a request that is too large",
    },
    Family {
        name: "GitHub Copilot",
        providers: &["github-copilot"],
        urls: &["githubcopilot.com"],
        quirks: Quirks {
            reasoning_effort: false,
            ids: AtMost40,
            ..PLAIN
        },
        habits: "thinking in `reasoning_text` with `reasoning_opaque`; quota errors as plain text",
    },
    Family {
        name: "Vercel AI Gateway",
        providers: &["vercel-ai-gateway"],
        urls: &["ai-gateway.vercel.sh"],
        quirks: USUAL,
        habits: "thinking in `reasoning` and `reasoning_details`; errors of the server behind it in the text",
    },
    Family {
        name: "Cloudflare AI Gateway",
        providers: &["cloudflare-ai-gateway"],
        urls: &["gateway.ai.cloudflare.com"],
        quirks: Quirks {
            reasoning_effort: false,
            max_tokens_field: MaxTokens,
            strict: false,
            long_cache: false,
            ..PLAIN
        },
        habits: "errors as an `errors` list or those of the server behind it; `cf-ray` names the request",
    },
    Family {
        name: "Cloudflare Workers AI",
        providers: &["cloudflare-workers-ai"],
        urls: &["api.cloudflare.com"],
        quirks: Quirks {
            long_cache: false,
            session_affinity: true,
            ..PLAIN
        },
        habits: "calls without index; errors as an `errors` list; keeps a session on one machine by header",
    },
    Family {
        name: "MiniMax",
        providers: &["minimax", "minimax-cn"],
        urls: &["api.minimax"],
        quirks: Quirks {
            max_tokens_field: MaxTokens,
            long_cache: false,
            ..PLAIN
        },
        habits: "thinking in `reasoning_content` and `reasoning_details`; errors in `base_resp` with status 200",
    },
    Family {
        name: "Ollama",
        providers: &["ollama", "ollama-cloud"],
        urls: &["localhost:11434", "127.0.0.1:11434", "ollama.com"],
        quirks: Quirks {
            call_only_content: Empty,
            ..LOCAL
        },
        habits: "refuses null content; thinking in `reasoning`; index 0 for every call of older versions; whole calls in one fragment; finish `load`",
    },
    Family {
        name: "LM Studio",
        providers: &["lmstudio", "lm-studio"],
        urls: &["localhost:1234", "127.0.0.1:1234"],
        quirks: Quirks {
            call_only_content: Empty,
            ..LOCAL
        },
        habits: "thinking in `reasoning_content` or `reasoning`; ids of digits; an overflow as 400 `greater than the context length`",
    },
    Family {
        name: "llama.cpp",
        providers: &["llama.cpp", "llamacpp", "llama-cpp", "llama-server"],
        urls: &[],
        quirks: LOCAL,
        habits: "thinking in `reasoning_content`; errors of the chat template as 500; `exceed_context_size_error` for an overflow; 503 while loading",
    },
    Family {
        name: "llama-swap",
        providers: &["llama-swap"],
        urls: &[],
        quirks: LOCAL,
        habits: "as the server that it starts; the first request waits until the model is loaded",
    },
    Family {
        name: "vLLM",
        providers: &["vllm", "sglang"],
        urls: &[],
        quirks: LOCAL,
        habits: "thinking in `reasoning_content` or `reasoning`; ids `chatcmpl-tool-…`; the tokenizer of Mistral models demands short ids; finish `abort`",
    },
    Family {
        name: "Chutes",
        providers: &["chutes"],
        urls: &["chutes.ai"],
        quirks: Quirks {
            max_tokens_field: MaxTokens,
            ..PLAIN
        },
        habits: "as vLLM; 429 or 503 when no machine is free",
    },
    Family {
        name: "OpenCode",
        providers: &["opencode", "opencode-go"],
        urls: &["opencode.ai"],
        quirks: PLAIN,
        habits: "thinking in `reasoning_content`; errors typed `GoUsageLimitError`, `FreeUsageLimitError`, `CreditsError`",
    },
    Family {
        name: "Ant Ling",
        providers: &["ant-ling"],
        urls: &["api.ant-ling.com"],
        quirks: Quirks {
            reasoning_effort: false,
            max_tokens_field: MaxTokens,
            thinking_format: ThinkingFormat::AntLing,
            long_cache: false,
            ..PLAIN
        },
        habits: "thinking in `reasoning_content`",
    },
];
