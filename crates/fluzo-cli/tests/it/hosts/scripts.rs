//! The scripts, in the order of the rows of hosts.

use fluzo_catalogue::dialect::{
    ANTHROPIC, ANTHROPIC_VERTEX, AZURE, COMPLETIONS, GOOGLE, GOOGLE_VERTEX, RESPONSES,
};
use fluzo_sim::Quirk::{
    self, DemandsNineCharacterIds, DemandsReasoning, RefusesDeveloperRole, RefusesNullContent,
    RefusesReasoningEffort, RefusesStore, RefusesStreamOptions, RefusesStrict,
};

use super::script::Script;

type Fact = (&'static str, &'static str);
type Facts = &'static [Fact];

/// Servers that know neither `store` nor the role `developer`.
const PLAIN: &[Quirk] = &[RefusesStore, RefusesDeveloperRole];
const PLAIN_NO_EFFORT: &[Quirk] = &[RefusesStore, RefusesDeveloperRole, RefusesReasoningEffort];
const PLAIN_NO_STRICT: &[Quirk] = &[
    RefusesStore,
    RefusesDeveloperRole,
    RefusesReasoningEffort,
    RefusesStrict,
];
const LOCAL: &[Quirk] = &[RefusesStore, RefusesDeveloperRole];
const LOCAL_NO_NULL: &[Quirk] = &[RefusesStore, RefusesDeveloperRole, RefusesNullContent];

const HIGH: Fact = ("/reasoning_effort", r#""high""#);
const DEVELOPER: Fact = ("/messages/0/role", r#""developer""#);
const EFFORT: Facts = &[("/messages/0/role", r#""system""#), HIGH];
/// What a server gets that nothing is known of.
const USUAL: Facts = &[
    ("/store", "false"),
    DEVELOPER,
    HIGH,
    ("/tools/0/function/strict", "false"),
    ("/stream_options/include_usage", "true"),
];
const USUAL_MESSAGES: Facts = &[
    ("/tools/0/eager_input_streaming", "true"),
    ("/system/0/cache_control/type", r#""ephemeral""#),
];
const USUAL_RESPONSES: Facts = &[
    ("/store", "false"),
    ("/include/0", r#""reasoning.encrypted_content""#),
    ("/reasoning/effort", r#""high""#),
];
const THINKING_ON: Facts = &[("/thinking/type", r#""enabled""#)];
/// Thinking that was not signed goes back as thinking.
const UNSIGNED: Facts = &[(
    "/messages/1/content/0",
    r#"{"type": "thinking", "thinking": "hm", "signature": ""}"#,
)];
const GEMINI_3: Facts = &[(
    "/generationConfig/thinkingConfig/thinkingLevel",
    r#""HIGH""#,
)];

const VERSION: Fact = ("anthropic-version", "2023-06-01");
const BETAS: Fact = (
    "anthropic-beta",
    "fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14",
);
const OPENCODE: Fact = ("x-opencode-client", "fluzo");
const EDITOR: Fact = (
    "editor-version",
    concat!("fluzo/", env!("CARGO_PKG_VERSION")),
);
const INTENT: Fact = ("openai-intent", "conversation-edits");
/// Who asks, according to the request.
const INITIATOR: &[(&str, &str, &str)] = &[("x-initiator", "user", "agent")];
const ACCOUNT: Fact = ("CLOUDFLARE_ACCOUNT_ID", "account1");
const GATEWAY: Fact = ("CLOUDFLARE_GATEWAY_ID", "gate-1");
const LOCATION: Fact = ("GOOGLE_CLOUD_LOCATION", "us-east5");

const fn chat(host: &'static str, url: &'static str) -> Script {
    Script::new(host, COMPLETIONS, url)
}

/// With the key as the dialect sends it.
const fn messages(host: &'static str, url: &'static str, key: &'static str) -> Script {
    Script::new(host, ANTHROPIC, url)
        .key(key, "x-api-key", "")
        .headers(&[VERSION])
}

const fn responses(host: &'static str, url: &'static str) -> Script {
    Script::new(host, RESPONSES, url)
}

pub const SCRIPTS: &[Script] = &[
    chat(
        "amazon-bedrock",
        "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1/chat/completions",
    )
    .with(&[("AWS_DEFAULT_REGION", "eu-west-1")])
    .bearer("AWS_BEARER_TOKEN_BEDROCK")
    .body(USUAL)
    .usual(),
    messages("anthropic", "https://api.anthropic.com/v1/messages", "ANTHROPIC_API_KEY")
        .body(&[
            ("/thinking/type", r#""adaptive""#),
            ("/output_config/effort", r#""high""#),
        ])
        .usual(),
    messages("anthropic", "https://api.anthropic.com/v1/messages", "")
        .bearer("ANTHROPIC_OAUTH_TOKEN")
        .body(USUAL_MESSAGES),
    responses("openai", "https://api.openai.com/v1/responses")
        .bearer("OPENAI_API_KEY")
        .present(&["session_id"])
        .body(USUAL_RESPONSES)
        .usual(),
    chat("openai", "https://api.openai.com/v1/chat/completions")
        .bearer("OPENAI_API_KEY")
        .body(USUAL)
        .usual(),
    Script::new(
        "azure-openai-responses",
        AZURE,
        "https://my-resource.openai.azure.com/openai/v1/responses",
    )
    .with(&[("AZURE_OPENAI_RESOURCE_NAME", "my-resource")])
    .key("AZURE_OPENAI_API_KEY", "api-key", "")
    .body(USUAL_RESPONSES)
    .usual(),
    chat("deepseek", "https://api.deepseek.com/chat/completions")
        .bearer("DEEPSEEK_API_KEY")
        .quirks(&[RefusesStore, RefusesDeveloperRole, DemandsReasoning])
        .body(THINKING_ON)
        .then(&[("/messages/2/reasoning_content", r#""""#)]),
    messages("deepseek", "https://api.deepseek.com/anthropic/v1/messages", "DEEPSEEK_API_KEY")
        .thinks()
        .then(UNSIGNED),
    Script::new(
        "google",
        GOOGLE,
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse",
    )
    .key("GEMINI_API_KEY", "x-goog-api-key", "")
    .body(GEMINI_3)
    .usual(),
    gemini_on_vertex().bearer("GOOGLE_OAUTH_ACCESS_TOKEN"),
    gemini_on_vertex().bearer("CLOUDSDK_AUTH_ACCESS_TOKEN"),
    gemini_on_vertex().key_like("GOOGLE_CLOUD_API_KEY", "AIza-test-key", "x-goog-api-key"),
    chat("github-copilot", "https://api.individual.githubcopilot.com/chat/completions")
        .model("gemini-2.5-pro")
        .bearer("COPILOT_GITHUB_TOKEN")
        .headers(&[EDITOR, INTENT])
    .turns(INITIATOR)
        .quirks(PLAIN_NO_EFFORT),
    // It refuses to be told not to think.
    responses("github-copilot", "https://api.individual.githubcopilot.com/responses")
        .bearer("COPILOT_GITHUB_TOKEN")
        .headers(&[EDITOR, INTENT])
    .turns(INITIATOR)
        .thinking("off")
        .lacks(&["/reasoning"]),
    Script::new(
        "github-copilot",
        ANTHROPIC,
        "https://api.individual.githubcopilot.com/v1/messages",
    )
    .model("claude-sonnet-4.5")
    .bearer("COPILOT_GITHUB_TOKEN")
    .headers(&[EDITOR, INTENT, VERSION, BETAS])
    .turns(INITIATOR)
    .lacks(&["/tools/0/eager_input_streaming"]),
    chat("openrouter", "https://openrouter.ai/api/v1/chat/completions")
        .bearer("OPENROUTER_API_KEY")
        .headers(&[("x-openrouter-title", "Fluzo"), ("x-openrouter-categories", "cli-agent")])
        .quirks(&[RefusesDeveloperRole])
        .body(&[("/reasoning/effort", r#""high""#)])
        .lacks(&["/reasoning_effort"]),
    messages("vercel-ai-gateway", "https://ai-gateway.vercel.sh/v1/messages", "AI_GATEWAY_API_KEY")
        .body(USUAL_MESSAGES)
        .usual(),
    chat("vercel-ai-gateway", "https://ai-gateway.vercel.sh/v1/chat/completions")
        .bearer("AI_GATEWAY_API_KEY")
        .body(USUAL)
        .usual(),
    chat("xai", "https://api.x.ai/v1/chat/completions")
        .bearer("XAI_API_KEY")
        .quirks(PLAIN_NO_EFFORT),
    responses("xai", "https://api.x.ai/v1/responses")
        .bearer("XAI_API_KEY")
        .body(USUAL_RESPONSES)
        .usual(),
    chat("groq", "https://api.groq.com/openai/v1/chat/completions")
        .bearer("GROQ_API_KEY")
        .quirks(&[RefusesStore])
        .body(&[DEVELOPER, HIGH]),
    chat("cerebras", "https://api.cerebras.ai/v1/chat/completions")
        .bearer("CEREBRAS_API_KEY")
        .quirks(PLAIN)
        .body(EFFORT),
    chat("zai", "https://api.z.ai/api/coding/paas/v4/chat/completions")
        .bearer("ZAI_API_KEY")
        .quirks(PLAIN_NO_EFFORT)
        .body(THINKING_ON),
    chat("mistral", "https://api.mistral.ai/v1/chat/completions")
        .bearer("MISTRAL_API_KEY")
        .quirks(&[RefusesStore, RefusesStreamOptions, DemandsNineCharacterIds])
        .then(&[("/messages/3/name", r#""bash""#)]),
    messages("minimax", "https://api.minimax.io/anthropic/v1/messages", "MINIMAX_API_KEY")
        .body(USUAL_MESSAGES)
        .usual(),
    chat("minimax", "https://api.minimax.io/v1/chat/completions")
        .bearer("MINIMAX_API_KEY")
        .quirks(PLAIN)
        .body(EFFORT),
    messages("minimax-cn", "https://api.minimaxi.com/anthropic/v1/messages", "MINIMAX_CN_API_KEY")
        .body(USUAL_MESSAGES)
        .usual(),
    chat("minimax-cn", "https://api.minimaxi.com/v1/chat/completions")
        .bearer("MINIMAX_CN_API_KEY")
        .quirks(PLAIN)
        .body(EFFORT),
    chat("moonshotai", "https://api.moonshot.ai/v1/chat/completions")
        .bearer("MOONSHOT_API_KEY")
        .quirks(PLAIN_NO_STRICT),
    chat("moonshotai-cn", "https://api.moonshot.cn/v1/chat/completions")
        .bearer("MOONSHOT_API_KEY")
        .quirks(PLAIN_NO_STRICT),
    chat("huggingface", "https://router.huggingface.co/v1/chat/completions")
        .bearer("HF_TOKEN")
        .quirks(PLAIN_NO_EFFORT),
    messages("fireworks", "https://api.fireworks.ai/inference/v1/messages", "FIREWORKS_API_KEY")
        .present(&["x-session-affinity", "anthropic-beta"])
        .lacks(&["/tools/0/eager_input_streaming", "/tools/3/cache_control"]),
    chat("fireworks", "https://api.fireworks.ai/inference/v1/chat/completions")
        .bearer("FIREWORKS_API_KEY")
        .present(&["x-session-affinity"])
        .quirks(PLAIN)
        .body(EFFORT),
    chat("opencode", "https://opencode.ai/zen/v1/chat/completions")
        .bearer("OPENCODE_API_KEY")
        .headers(&[OPENCODE])
.present(&["x-opencode-session"])
        .quirks(PLAIN_NO_EFFORT),
    responses("opencode", "https://opencode.ai/zen/v1/responses")
        .model("gpt-5.4")
        .bearer("OPENCODE_API_KEY")
        .headers(&[OPENCODE])
.present(&["x-opencode-session"])
        .body(USUAL_RESPONSES),
    messages("opencode", "https://opencode.ai/zen/v1/messages", "OPENCODE_API_KEY")
        .model("claude-sonnet-4-6")
        .headers(&[OPENCODE, VERSION])
.present(&["x-opencode-session"]),
    Script::new(
        "opencode",
        GOOGLE,
        "https://opencode.ai/zen/v1/models/gemini-3-flash:streamGenerateContent?alt=sse",
    )
    .model("gemini-3-flash")
    .key("OPENCODE_API_KEY", "x-goog-api-key", "")
    .headers(&[OPENCODE])
.present(&["x-opencode-session"])
    .body(GEMINI_3),
    chat("opencode-go", "https://opencode.ai/zen/go/v1/chat/completions")
        .bearer("OPENCODE_API_KEY")
        .headers(&[OPENCODE])
.present(&["x-opencode-session"])
        .quirks(PLAIN_NO_EFFORT),
    messages("opencode-go", "https://opencode.ai/zen/go/v1/messages", "OPENCODE_API_KEY")
        .model("minimax-m2.7")
        .headers(&[OPENCODE, VERSION])
.present(&["x-opencode-session"]),
    messages("kimi-coding", "https://api.kimi.com/coding/v1/messages", "KIMI_API_KEY")
        .thinks()
        .then(UNSIGNED),
    chat("kimi-coding", "https://api.kimi.com/coding/v1/chat/completions")
        .bearer("KIMI_API_KEY")
        .body(USUAL)
        .usual(),
    chat(
        "cloudflare-workers-ai",
        "https://api.cloudflare.com/client/v4/accounts/account1/ai/v1/chat/completions",
    )
    .with(&[ACCOUNT])
    .bearer("CLOUDFLARE_API_KEY")
    .present(&["x-session-affinity"])
    .quirks(PLAIN),
    chat(
        "cloudflare-ai-gateway",
        "https://gateway.ai.cloudflare.com/v1/account1/gate-1/compat/chat/completions",
    )
    .with(&[ACCOUNT, GATEWAY])
    .key("CLOUDFLARE_API_KEY", "cf-aig-authorization", "Bearer ")
    .quirks(PLAIN_NO_STRICT),
    responses(
        "cloudflare-ai-gateway",
        "https://gateway.ai.cloudflare.com/v1/account1/gate-1/openai/responses",
    )
    .with(&[ACCOUNT, GATEWAY])
    .key("CLOUDFLARE_API_KEY", "cf-aig-authorization", "Bearer ")
    .body(USUAL_RESPONSES),
    messages(
        "cloudflare-ai-gateway",
        "https://gateway.ai.cloudflare.com/v1/account1/gate-1/anthropic/v1/messages",
        "",
    )
    .with(&[ACCOUNT, GATEWAY])
    .key("CLOUDFLARE_API_KEY", "cf-aig-authorization", "Bearer ")
    .present(&["x-session-affinity"])
    .body(USUAL_MESSAGES),
    messages("xiaomi", "https://api.xiaomimimo.com/anthropic/v1/messages", "XIAOMI_API_KEY")
        .thinks()
        .then(UNSIGNED),
    chat("xiaomi", "https://api.xiaomimimo.com/v1/chat/completions")
        .bearer("XIAOMI_API_KEY")
        .body(USUAL)
        .usual(),
    messages(
        "xiaomi-token-plan-cn",
        "https://token-plan-cn.xiaomimimo.com/anthropic/v1/messages",
        "XIAOMI_TOKEN_PLAN_CN_API_KEY",
    )
    .thinks()
    .then(UNSIGNED),
    chat(
        "xiaomi-token-plan-cn",
        "https://token-plan-cn.xiaomimimo.com/v1/chat/completions",
    )
    .bearer("XIAOMI_TOKEN_PLAN_CN_API_KEY")
    .body(USUAL)
    .usual(),
    messages(
        "xiaomi-token-plan-ams",
        "https://token-plan-ams.xiaomimimo.com/anthropic/v1/messages",
        "XIAOMI_TOKEN_PLAN_AMS_API_KEY",
    )
    .thinks()
    .then(UNSIGNED),
    chat(
        "xiaomi-token-plan-ams",
        "https://token-plan-ams.xiaomimimo.com/v1/chat/completions",
    )
    .bearer("XIAOMI_TOKEN_PLAN_AMS_API_KEY")
    .body(USUAL)
    .usual(),
    messages(
        "xiaomi-token-plan-sgp",
        "https://token-plan-sgp.xiaomimimo.com/anthropic/v1/messages",
        "XIAOMI_TOKEN_PLAN_SGP_API_KEY",
    )
    .thinks()
    .then(UNSIGNED),
    chat(
        "xiaomi-token-plan-sgp",
        "https://token-plan-sgp.xiaomimimo.com/v1/chat/completions",
    )
    .bearer("XIAOMI_TOKEN_PLAN_SGP_API_KEY")
    .body(USUAL)
    .usual(),
    chat("ant-ling", "https://api.ant-ling.com/v1/chat/completions")
        .bearer("ANT_LING_API_KEY")
        .quirks(PLAIN_NO_EFFORT)
        .lacks(&["/reasoning", "/thinking"]),
    chat("nvidia", "https://integrate.api.nvidia.com/v1/chat/completions")
        .bearer("NVIDIA_API_KEY")
        .headers(&[("x-billing-invoke-origin", "Fluzo")])
        .quirks(PLAIN_NO_STRICT),
    chat("together", "https://api.together.ai/v1/chat/completions")
        .bearer("TOGETHER_API_KEY")
        .quirks(PLAIN_NO_STRICT)
        .body(&[("/reasoning/enabled", "true")]),
    chat("zai-coding-cn", "https://open.bigmodel.cn/api/coding/paas/v4/chat/completions")
        .bearer("ZAI_CODING_CN_API_KEY")
        .quirks(PLAIN_NO_EFFORT)
        .body(THINKING_ON),
    claude_on_vertex().bearer("GOOGLE_OAUTH_ACCESS_TOKEN"),
    claude_on_vertex().bearer("CLOUDSDK_AUTH_ACCESS_TOKEN"),
    github_models().bearer("GITHUB_MODELS_TOKEN"),
    github_models().bearer("GITHUB_TOKEN"),
    local("ollama", "http://localhost:11434/v1/chat/completions").quirks(LOCAL_NO_NULL),
    local("lmstudio", "http://localhost:1234/v1/chat/completions").quirks(LOCAL_NO_NULL),
    local("lmstudio", "http://localhost:1234/v1/chat/completions")
        .bearer("LMSTUDIO_API_KEY")
        .quirks(LOCAL_NO_NULL),
    local("llama.cpp", "http://localhost:8080/v1/chat/completions").quirks(LOCAL),
    local("llama.cpp", "http://localhost:8080/v1/chat/completions")
        .bearer("LLAMA_API_KEY")
        .quirks(LOCAL),
    local("llama-swap", "http://localhost:8080/v1/chat/completions").quirks(LOCAL),
    local("vllm", "http://localhost:8000/v1/chat/completions").quirks(LOCAL),
    local("vllm", "http://localhost:8000/v1/chat/completions")
        .bearer("VLLM_API_KEY")
        .quirks(LOCAL),
];

const fn gemini_on_vertex() -> Script {
    Script::new(
        "google-vertex",
        GOOGLE_VERTEX,
        "https://us-east5-aiplatform.googleapis.com/v1/projects/my-project/locations/us-east5/publishers/google/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse",
    )
    .with(&[LOCATION, ("GOOGLE_CLOUD_PROJECT", "my-project")])
    .body(GEMINI_3)
    .usual()
}

const fn claude_on_vertex() -> Script {
    Script::new(
        "anthropic-vertex",
        ANTHROPIC_VERTEX,
        "https://us-east5-aiplatform.googleapis.com/v1/projects/my-project/locations/us-east5/publishers/anthropic/models/claude-opus-4-7@default:streamRawPredict",
    )
    .with(&[LOCATION, ("GCLOUD_PROJECT", "my-project")])
    .body(&[("/anthropic_version", r#""vertex-2023-10-16""#)])
    .lacks(&["/model"])
    .usual()
}

const fn github_models() -> Script {
    chat(
        "github-models",
        "https://models.github.ai/inference/chat/completions",
    )
    .model("openai/gpt-4.1")
    .quirks(&[RefusesStore])
}

/// A server without a model of its own in the table.
const fn local(host: &'static str, url: &'static str) -> Script {
    chat(host, url).model("my-model")
}
