//! The host table: one row a provider. Endpoints, variables and headers as the providers
//! publish them.

use crate::host::Host;
use crate::host::KeySending::{Bearer, BearerIn, Dialect};

/// Ids of the wire dialects that hosts speak.
pub mod dialect {
    /// Anthropic Messages: POST BASE/v1/messages.
    pub const ANTHROPIC: &str = "anthropic-messages";
    /// Anthropic Messages on Vertex, with the model in the URL: POST BASE/models/ID:streamRawPredict.
    pub const ANTHROPIC_VERTEX: &str = "anthropic-vertex";
    /// OpenAI Responses on Azure.
    pub const AZURE: &str = "azure-openai-responses";
    /// Chat Completions: POST BASE/chat/completions.
    pub const COMPLETIONS: &str = "openai-completions";
    /// Gemini: POST BASE/models/ID:streamGenerateContent.
    pub const GOOGLE: &str = "google-generative-ai";
    /// Gemini on Vertex, with the same path after its base URL.
    pub const GOOGLE_VERTEX: &str = "google-vertex";
    /// OpenAI Responses: POST BASE/responses.
    pub const RESPONSES: &str = "openai-responses";

    /// All of them.
    pub const ALL: [&str; 7] = [
        ANTHROPIC,
        ANTHROPIC_VERTEX,
        AZURE,
        COMPLETIONS,
        GOOGLE,
        GOOGLE_VERTEX,
        RESPONSES,
    ];
}

use dialect::{ANTHROPIC, ANTHROPIC_VERTEX, AZURE, COMPLETIONS, GOOGLE, GOOGLE_VERTEX, RESPONSES};

/// Providers that are left out on purpose, each with what to use instead.
pub const EXCEPTIONS: &[(&str, &str)] = &[(
    "openai-codex",
    "it needs the sign-in of another vendor's client; use the provider `openai` with OPENAI_API_KEY",
)];

/// All hosts, in the order in which a default model is looked for.
pub const HOSTS: &[Host] = &[
    Host::new("amazon-bedrock", "Amazon Bedrock", &[(
        COMPLETIONS,
        "https://bedrock-runtime.{AWS_REGION|AWS_DEFAULT_REGION|=us-east-1}.amazonaws.com/openai/v1",
    )])
    .keys(&["AWS_BEARER_TOKEN_BEDROCK"])
    .model("us.anthropic.claude-opus-4-6-v1")
    .note("its OpenAI-compatible endpoint with a bearer token; signed requests are not spoken"),
    Host::new("anthropic", "Anthropic", &[(ANTHROPIC, "https://api.anthropic.com")])
        .keys(&["ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY"])
        .except(&[("ANTHROPIC_OAUTH_TOKEN", Bearer)])
        .model("claude-opus-4-7"),
    Host::new("openai", "OpenAI", &[
        (RESPONSES, "https://api.openai.com/v1"),
        (COMPLETIONS, "https://api.openai.com/v1"),
    ])
    .keys(&["OPENAI_API_KEY"])
    .model("gpt-5.4"),
    Host::new("azure-openai-responses", "Azure OpenAI", &[(
        AZURE,
        "https://{AZURE_OPENAI_RESOURCE_NAME}.openai.azure.com/openai/v1",
    )])
    .keys(&["AZURE_OPENAI_API_KEY"])
    .url_from("AZURE_OPENAI_BASE_URL")
    .query_from("AZURE_OPENAI_API_VERSION", "api-version")
    .deployments_from("AZURE_OPENAI_DEPLOYMENT_NAME_MAP")
    .model("gpt-5.4"),
    Host::new("deepseek", "DeepSeek", &[
        (COMPLETIONS, "https://api.deepseek.com"),
        (ANTHROPIC, "https://api.deepseek.com/anthropic"),
    ])
    .keys(&["DEEPSEEK_API_KEY"])
    .model("deepseek-v4-pro"),
    Host::new("google", "Google Gemini", &[(
        GOOGLE,
        "https://generativelanguage.googleapis.com/v1beta",
    )])
    .keys(&["GEMINI_API_KEY"])
    .model("gemini-3.1-pro-preview"),
    Host::new("google-vertex", "Google Vertex AI", &[(
        GOOGLE_VERTEX,
        "https://{GOOGLE_CLOUD_LOCATION}-aiplatform.googleapis.com/v1/projects/{GOOGLE_CLOUD_PROJECT|GCLOUD_PROJECT}/locations/{GOOGLE_CLOUD_LOCATION}/publishers/google",
    )])
    .keys(VERTEX_KEYS)
    .sent(Bearer)
    .except(&[("GOOGLE_CLOUD_API_KEY", Dialect)])
    .model("gemini-3.1-pro-preview")
    .note("an access token or an API key; application default credentials are not read"),
    Host::new("github-copilot", "GitHub Copilot", &[
        (COMPLETIONS, "https://api.individual.githubcopilot.com"),
        (RESPONSES, "https://api.individual.githubcopilot.com"),
        (ANTHROPIC, "https://api.individual.githubcopilot.com"),
    ])
    .keys(&["COPILOT_GITHUB_TOKEN"])
    .sent(Bearer)
    .headers(&[
        ("Editor-Version", concat!("fluzo/", env!("CARGO_PKG_VERSION"))),
        ("Openai-Intent", "conversation-edits"),
    ])
    .model("gpt-5.4")
    .note("the token that is signed in with names the server"),
    Host::new("openrouter", "OpenRouter", &[(COMPLETIONS, "https://openrouter.ai/api/v1")])
        .keys(&["OPENROUTER_API_KEY"])
        .headers(&[
            ("X-OpenRouter-Title", "Fluzo"),
            ("X-OpenRouter-Categories", "cli-agent"),
        ])
        .model("moonshotai/kimi-k2.6"),
    Host::new("vercel-ai-gateway", "Vercel AI Gateway", &[
        (ANTHROPIC, "https://ai-gateway.vercel.sh"),
        (COMPLETIONS, "https://ai-gateway.vercel.sh/v1"),
    ])
    .keys(&["AI_GATEWAY_API_KEY"])
    .model("zai/glm-5.1"),
    Host::new("xai", "xAI", &[
        (COMPLETIONS, "https://api.x.ai/v1"),
        (RESPONSES, "https://api.x.ai/v1"),
    ])
    .keys(&["XAI_API_KEY"])
    .model("grok-4.20-0309-reasoning"),
    Host::new("groq", "Groq", &[(COMPLETIONS, "https://api.groq.com/openai/v1")])
        .keys(&["GROQ_API_KEY"])
        .model("openai/gpt-oss-120b"),
    Host::new("cerebras", "Cerebras", &[(COMPLETIONS, "https://api.cerebras.ai/v1")])
        .keys(&["CEREBRAS_API_KEY"])
        .model("zai-glm-4.7"),
    Host::new("zai", "Z.AI", &[(COMPLETIONS, "https://api.z.ai/api/coding/paas/v4")])
        .keys(&["ZAI_API_KEY"])
        .model("glm-5.1")
        .note("the endpoint of the coding plan; without a plan set `baseUrl` in models.json"),
    Host::new("mistral", "Mistral", &[(COMPLETIONS, "https://api.mistral.ai/v1")])
        .keys(&["MISTRAL_API_KEY"])
        .model("devstral-medium-latest")
        .note("through Chat Completions, not its own dialect"),
    Host::new("minimax", "MiniMax", &[
        (ANTHROPIC, "https://api.minimax.io/anthropic"),
        (COMPLETIONS, "https://api.minimax.io/v1"),
    ])
    .keys(&["MINIMAX_API_KEY"])
    .model("MiniMax-M2.7"),
    Host::new("minimax-cn", "MiniMax (China)", &[
        (ANTHROPIC, "https://api.minimaxi.com/anthropic"),
        (COMPLETIONS, "https://api.minimaxi.com/v1"),
    ])
    .keys(&["MINIMAX_CN_API_KEY"])
    .model("MiniMax-M2.7"),
    Host::new("moonshotai", "Moonshot AI", &[(COMPLETIONS, "https://api.moonshot.ai/v1")])
        .keys(&["MOONSHOT_API_KEY"])
        .model("kimi-k2.6"),
    Host::new("moonshotai-cn", "Moonshot AI (China)", &[(
        COMPLETIONS,
        "https://api.moonshot.cn/v1",
    )])
    .keys(&["MOONSHOT_API_KEY"])
    .model("kimi-k2.6"),
    Host::new("huggingface", "Hugging Face", &[(
        COMPLETIONS,
        "https://router.huggingface.co/v1",
    )])
    .keys(&["HF_TOKEN"])
    .model("moonshotai/Kimi-K2.6"),
    Host::new("fireworks", "Fireworks AI", &[
        (ANTHROPIC, "https://api.fireworks.ai/inference"),
        (COMPLETIONS, "https://api.fireworks.ai/inference/v1"),
    ])
    .keys(&["FIREWORKS_API_KEY"])
    .model("accounts/fireworks/models/kimi-k2p6"),
    Host::new("opencode", "OpenCode Zen", &[
        (COMPLETIONS, "https://opencode.ai/zen/v1"),
        (RESPONSES, "https://opencode.ai/zen/v1"),
        (ANTHROPIC, "https://opencode.ai/zen"),
        (GOOGLE, "https://opencode.ai/zen/v1"),
    ])
    .keys(&["OPENCODE_API_KEY"])
    .headers(OPENCODE_HEADERS)
    .model("kimi-k2.6"),
    Host::new("opencode-go", "OpenCode Go", &[
        (COMPLETIONS, "https://opencode.ai/zen/go/v1"),
        (ANTHROPIC, "https://opencode.ai/zen/go"),
    ])
    .keys(&["OPENCODE_API_KEY"])
    .headers(OPENCODE_HEADERS)
    .model("kimi-k2.6"),
    Host::new("kimi-coding", "Kimi For Coding", &[
        (ANTHROPIC, "https://api.kimi.com/coding"),
        (COMPLETIONS, "https://api.kimi.com/coding/v1"),
    ])
    .keys(&["KIMI_API_KEY"])
    .model("kimi-for-coding"),
    Host::new("cloudflare-workers-ai", "Cloudflare Workers AI", &[(
        COMPLETIONS,
        "https://api.cloudflare.com/client/v4/accounts/{CLOUDFLARE_ACCOUNT_ID}/ai/v1",
    )])
    .keys(&["CLOUDFLARE_API_KEY"])
    .model("@cf/moonshotai/kimi-k2.6"),
    Host::new("cloudflare-ai-gateway", "Cloudflare AI Gateway", &[
        (
            COMPLETIONS,
            "https://gateway.ai.cloudflare.com/v1/{CLOUDFLARE_ACCOUNT_ID}/{CLOUDFLARE_GATEWAY_ID}/compat",
        ),
        (
            RESPONSES,
            "https://gateway.ai.cloudflare.com/v1/{CLOUDFLARE_ACCOUNT_ID}/{CLOUDFLARE_GATEWAY_ID}/openai",
        ),
        (
            ANTHROPIC,
            "https://gateway.ai.cloudflare.com/v1/{CLOUDFLARE_ACCOUNT_ID}/{CLOUDFLARE_GATEWAY_ID}/anthropic",
        ),
    ])
    .keys(&["CLOUDFLARE_API_KEY"])
    .sent(BearerIn("cf-aig-authorization"))
    .model("workers-ai/@cf/moonshotai/kimi-k2.6")
    .note("the key is the gateway's; `Authorization` is left to the provider behind it"),
    Host::new("xiaomi", "Xiaomi MiMo", &[
        (ANTHROPIC, "https://api.xiaomimimo.com/anthropic"),
        (COMPLETIONS, "https://api.xiaomimimo.com/v1"),
    ])
    .keys(&["XIAOMI_API_KEY"])
    .model("mimo-v2.5-pro"),
    Host::new("xiaomi-token-plan-cn", "Xiaomi MiMo token plan (China)", &[
        (ANTHROPIC, "https://token-plan-cn.xiaomimimo.com/anthropic"),
        (COMPLETIONS, "https://token-plan-cn.xiaomimimo.com/v1"),
    ])
    .keys(&["XIAOMI_TOKEN_PLAN_CN_API_KEY"])
    .model("mimo-v2.5-pro"),
    Host::new("xiaomi-token-plan-ams", "Xiaomi MiMo token plan (Europe)", &[
        (ANTHROPIC, "https://token-plan-ams.xiaomimimo.com/anthropic"),
        (COMPLETIONS, "https://token-plan-ams.xiaomimimo.com/v1"),
    ])
    .keys(&["XIAOMI_TOKEN_PLAN_AMS_API_KEY"])
    .model("mimo-v2.5-pro"),
    Host::new("xiaomi-token-plan-sgp", "Xiaomi MiMo token plan (Singapore)", &[
        (ANTHROPIC, "https://token-plan-sgp.xiaomimimo.com/anthropic"),
        (COMPLETIONS, "https://token-plan-sgp.xiaomimimo.com/v1"),
    ])
    .keys(&["XIAOMI_TOKEN_PLAN_SGP_API_KEY"])
    .model("mimo-v2.5-pro"),
    Host::new("ant-ling", "Ant Ling", &[(COMPLETIONS, "https://api.ant-ling.com/v1")])
        .keys(&["ANT_LING_API_KEY"])
        .model("Ring-2.6-1T"),
    Host::new("nvidia", "NVIDIA NIM", &[(COMPLETIONS, "https://integrate.api.nvidia.com/v1")])
        .keys(&["NVIDIA_API_KEY"])
        .headers(&[("X-BILLING-INVOKE-ORIGIN", "Fluzo")])
        .model("nvidia/nemotron-3-super-120b-a12b"),
    Host::new("together", "Together AI", &[(COMPLETIONS, "https://api.together.ai/v1")])
        .keys(&["TOGETHER_API_KEY"])
        .model("moonshotai/Kimi-K2.6"),
    Host::new("zai-coding-cn", "Z.AI coding plan (China)", &[(
        COMPLETIONS,
        "https://open.bigmodel.cn/api/coding/paas/v4",
    )])
    .keys(&["ZAI_CODING_CN_API_KEY"])
    .model("glm-5.1"),
    Host::new("anthropic-vertex", "Anthropic on Vertex AI", &[(
        ANTHROPIC_VERTEX,
        "https://{GOOGLE_CLOUD_LOCATION}-aiplatform.googleapis.com/v1/projects/{GOOGLE_CLOUD_PROJECT|GCLOUD_PROJECT}/locations/{GOOGLE_CLOUD_LOCATION}/publishers/anthropic",
    )])
    .keys(VERTEX_TOKENS)
    .sent(Bearer)
    .model("claude-opus-4-7@default")
    .note("an access token; application default credentials are not read"),
    Host::new("github-models", "GitHub Models", &[(
        COMPLETIONS,
        "https://models.github.ai/inference",
    )])
    .keys(&["GITHUB_MODELS_TOKEN", "GITHUB_TOKEN"])
    .note("never chosen by itself, since its token usually serves other purposes"),
    Host::new("ollama", "Ollama", &[(COMPLETIONS, "http://localhost:11434/v1")]).note(LOCAL),
    Host::new("lmstudio", "LM Studio", &[(COMPLETIONS, "http://localhost:1234/v1")])
        .optional_key(&["LMSTUDIO_API_KEY"])
        .note(LOCAL),
    Host::new("llama.cpp", "llama.cpp", &[(COMPLETIONS, "http://localhost:8080/v1")])
        .optional_key(&["LLAMA_API_KEY"])
        .note(LOCAL),
    Host::new("llama-swap", "llama-swap", &[(COMPLETIONS, "http://localhost:8080/v1")])
        .note(LOCAL),
    Host::new("vllm", "vLLM", &[(COMPLETIONS, "http://localhost:8000/v1")])
        .optional_key(&["VLLM_API_KEY"])
        .note(LOCAL),
];

const VERTEX_TOKENS: &[&str] = &["GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"];
const VERTEX_KEYS: &[&str] = &[
    "GOOGLE_CLOUD_API_KEY",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "CLOUDSDK_AUTH_ACCESS_TOKEN",
];
const OPENCODE_HEADERS: &[(&str, &str)] = &[("x-opencode-client", "fluzo")];
const LOCAL: &str = "a server of one's own: its models are discovered or configured";

/// The host with this id.
pub fn host(id: &str) -> Option<&'static Host> {
    HOSTS.iter().find(|host| host.id == id)
}

/// What to use in place of a provider that is left out on purpose.
pub fn exception(id: &str) -> Option<&'static str> {
    let row = EXCEPTIONS.iter().find(|(name, _)| *name == id);
    row.map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::fill;

    #[test]
    fn ids_are_unique_and_fields_are_whole() {
        let mut ids = HashSet::new();
        for host in HOSTS {
            assert!(ids.insert(host.id), "{}", host.id);
            assert!(exception(host.id).is_none(), "{}", host.id);
            assert!(!host.endpoints.is_empty(), "{}", host.id);
            assert!(!host.needs_key || !host.keys.is_empty(), "{}", host.id);
            let mut apis = HashSet::new();
            for (api, url) in host.endpoints {
                assert!(dialect::ALL.contains(api), "{}: {api}", host.id);
                assert!(apis.insert(api), "{}: {api} twice", host.id);
                assert!(!url.ends_with('/'), "{url}");
            }
            for (variable, _) in host.key_exceptions {
                assert!(host.keys.contains(variable), "{}: {variable}", host.id);
            }
        }
    }

    /// A key must not leave the machine in plain text.
    #[test]
    fn plain_http_is_for_this_machine_only() {
        for host in HOSTS {
            for (_, url) in host.endpoints {
                let local = url.starts_with("http://localhost:") && !host.needs_key;
                assert!(local || url.starts_with("https://"), "{url}");
            }
        }
    }

    #[test]
    fn every_template_can_be_filled() {
        for host in HOSTS {
            for (_, url) in host.endpoints {
                let filled = fill(url, &|_| Some("x1".to_owned())).unwrap();
                assert!(!filled.contains(['{', '}', '|']), "{filled}");
            }
        }
        let vertex = host("google-vertex").unwrap();
        assert_eq!(
            vertex.url_variables(),
            [
                "GOOGLE_CLOUD_LOCATION",
                "GOOGLE_CLOUD_PROJECT",
                "GCLOUD_PROJECT"
            ]
        );
        let global = |name: &str| {
            Some(
                if name.ends_with("LOCATION") {
                    "global"
                } else {
                    "p"
                }
                .to_owned(),
            )
        };
        assert_eq!(
            fill(vertex.base_url(), &global).unwrap(),
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google"
        );
    }

    /// The names of other programs that servers look for in headers.
    #[test]
    fn no_header_passes_for_another_client() {
        let others = [
            "vscode",
            "copilot-chat",
            "githubcopilotchat",
            "jetbrains",
            "claude",
            "codex",
        ];
        for host in HOSTS {
            for (name, value) in host.headers {
                let value = value.to_lowercase();
                assert!(
                    !others.iter().any(|other| value.contains(other)),
                    "{name}: {value}"
                );
            }
        }
    }

    #[test]
    fn how_a_key_is_sent() {
        let rows = [
            ("anthropic", None, Dialect),
            ("anthropic", Some("ANTHROPIC_API_KEY"), Dialect),
            ("anthropic", Some("ANTHROPIC_OAUTH_TOKEN"), Bearer),
            ("google-vertex", None, Bearer),
            ("google-vertex", Some("GOOGLE_CLOUD_API_KEY"), Dialect),
            (
                "cloudflare-ai-gateway",
                None,
                BearerIn("cf-aig-authorization"),
            ),
            ("openai", None, Dialect),
        ];
        for (id, variable, expected) in rows {
            assert_eq!(
                host(id).unwrap().sending(variable),
                expected,
                "{id} {variable:?}"
            );
        }
    }

    #[test]
    fn the_variables_of_keys() {
        let expected: [(&str, &[&str]); 35] = [
            ("anthropic", &["ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY"]),
            ("openai", &["OPENAI_API_KEY"]),
            ("azure-openai-responses", &["AZURE_OPENAI_API_KEY"]),
            ("github-copilot", &["COPILOT_GITHUB_TOKEN"]),
            ("google", &["GEMINI_API_KEY"]),
            ("amazon-bedrock", &["AWS_BEARER_TOKEN_BEDROCK"]),
            ("mistral", &["MISTRAL_API_KEY"]),
            ("groq", &["GROQ_API_KEY"]),
            ("cerebras", &["CEREBRAS_API_KEY"]),
            ("xai", &["XAI_API_KEY"]),
            ("deepseek", &["DEEPSEEK_API_KEY"]),
            ("openrouter", &["OPENROUTER_API_KEY"]),
            ("zai", &["ZAI_API_KEY"]),
            ("vercel-ai-gateway", &["AI_GATEWAY_API_KEY"]),
            ("minimax", &["MINIMAX_API_KEY"]),
            ("minimax-cn", &["MINIMAX_CN_API_KEY"]),
            ("moonshotai", &["MOONSHOT_API_KEY"]),
            ("moonshotai-cn", &["MOONSHOT_API_KEY"]),
            ("kimi-coding", &["KIMI_API_KEY"]),
            ("huggingface", &["HF_TOKEN"]),
            ("fireworks", &["FIREWORKS_API_KEY"]),
            ("opencode", &["OPENCODE_API_KEY"]),
            ("opencode-go", &["OPENCODE_API_KEY"]),
            ("cloudflare-workers-ai", &["CLOUDFLARE_API_KEY"]),
            ("cloudflare-ai-gateway", &["CLOUDFLARE_API_KEY"]),
            ("xiaomi", &["XIAOMI_API_KEY"]),
            ("xiaomi-token-plan-cn", &["XIAOMI_TOKEN_PLAN_CN_API_KEY"]),
            ("xiaomi-token-plan-ams", &["XIAOMI_TOKEN_PLAN_AMS_API_KEY"]),
            ("xiaomi-token-plan-sgp", &["XIAOMI_TOKEN_PLAN_SGP_API_KEY"]),
            ("ant-ling", &["ANT_LING_API_KEY"]),
            ("nvidia", &["NVIDIA_API_KEY"]),
            ("together", &["TOGETHER_API_KEY"]),
            ("zai-coding-cn", &["ZAI_CODING_CN_API_KEY"]),
            ("google-vertex", VERTEX_KEYS),
            ("anthropic-vertex", VERTEX_TOKENS),
        ];
        for (id, keys) in expected {
            assert_eq!(host(id).unwrap().keys, keys, "{id}");
        }
        let urls = [
            (
                "azure-openai-responses",
                &["AZURE_OPENAI_RESOURCE_NAME"][..],
            ),
            ("cloudflare-workers-ai", &["CLOUDFLARE_ACCOUNT_ID"]),
            (
                "cloudflare-ai-gateway",
                &["CLOUDFLARE_ACCOUNT_ID", "CLOUDFLARE_GATEWAY_ID"],
            ),
            ("amazon-bedrock", &["AWS_REGION", "AWS_DEFAULT_REGION"]),
        ];
        for (id, variables) in urls {
            assert_eq!(host(id).unwrap().url_variables(), variables, "{id}");
        }
    }

    /// The hosts with a default model, in the order in which one is looked for.
    #[test]
    fn the_order_of_defaults_and_the_default_of_each() {
        let expected = [
            ("amazon-bedrock", "us.anthropic.claude-opus-4-6-v1"),
            ("anthropic", "claude-opus-4-7"),
            ("openai", "gpt-5.4"),
            ("azure-openai-responses", "gpt-5.4"),
            ("deepseek", "deepseek-v4-pro"),
            ("google", "gemini-3.1-pro-preview"),
            ("google-vertex", "gemini-3.1-pro-preview"),
            ("github-copilot", "gpt-5.4"),
            ("openrouter", "moonshotai/kimi-k2.6"),
            ("vercel-ai-gateway", "zai/glm-5.1"),
            ("xai", "grok-4.20-0309-reasoning"),
            ("groq", "openai/gpt-oss-120b"),
            ("cerebras", "zai-glm-4.7"),
            ("zai", "glm-5.1"),
            ("mistral", "devstral-medium-latest"),
            ("minimax", "MiniMax-M2.7"),
            ("minimax-cn", "MiniMax-M2.7"),
            ("moonshotai", "kimi-k2.6"),
            ("moonshotai-cn", "kimi-k2.6"),
            ("huggingface", "moonshotai/Kimi-K2.6"),
            ("fireworks", "accounts/fireworks/models/kimi-k2p6"),
            ("opencode", "kimi-k2.6"),
            ("opencode-go", "kimi-k2.6"),
            ("kimi-coding", "kimi-for-coding"),
            ("cloudflare-workers-ai", "@cf/moonshotai/kimi-k2.6"),
            (
                "cloudflare-ai-gateway",
                "workers-ai/@cf/moonshotai/kimi-k2.6",
            ),
            ("xiaomi", "mimo-v2.5-pro"),
            ("xiaomi-token-plan-cn", "mimo-v2.5-pro"),
            ("xiaomi-token-plan-ams", "mimo-v2.5-pro"),
            ("xiaomi-token-plan-sgp", "mimo-v2.5-pro"),
            ("ant-ling", "Ring-2.6-1T"),
            ("nvidia", "nvidia/nemotron-3-super-120b-a12b"),
            ("together", "moonshotai/Kimi-K2.6"),
            ("zai-coding-cn", "glm-5.1"),
            ("anthropic-vertex", "claude-opus-4-7@default"),
        ];
        let defaults = HOSTS.iter().filter_map(|h| Some((h.id, h.default_model?)));
        assert_eq!(defaults.collect::<Vec<_>>(), expected);
    }
}
