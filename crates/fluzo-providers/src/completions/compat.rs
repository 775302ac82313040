//! What a server of this dialect does differently: detected by provider and base URL, then
//! overridden by the model's `compat` settings.

use fluzo_llm::Model;
use serde::Deserialize;
use serde_json::Value;

/// The quirks of one server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compat {
    pub supports_store: bool,
    pub supports_developer_role: bool,
    pub supports_reasoning_effort: bool,
    pub supports_usage_in_streaming: bool,
    pub max_tokens_field: MaxTokensField,
    pub requires_tool_result_name: bool,
    pub requires_assistant_after_tool_result: bool,
    pub requires_thinking_as_text: bool,
    pub requires_reasoning_content_on_assistant_messages: bool,
    pub thinking_format: ThinkingFormat,
    pub anthropic_cache_control: bool,
    pub open_router_routing: Option<Value>,
    pub vercel_gateway_routing: Option<Value>,
    pub supports_strict_mode: bool,
    pub zai_tool_stream: bool,
}

/// Which field caps the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MaxTokensField {
    MaxCompletionTokens,
    MaxTokens,
}

/// How thinking is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ThinkingFormat {
    Openai,
    Openrouter,
    Deepseek,
    Zai,
    Qwen,
    QwenChatTemplate,
    Together,
    StringThinking,
    AntLing,
}

/// A group of servers: by provider name, or by a part of the base URL.
struct Group {
    providers: &'static [&'static str],
    urls: &'static [&'static str],
}

const CEREBRAS: Group = Group {
    providers: &["cerebras"],
    urls: &["cerebras.ai"],
};
const XAI: Group = Group {
    providers: &["xai"],
    urls: &["api.x.ai"],
};
const CHUTES: Group = Group {
    providers: &["chutes"],
    urls: &["chutes.ai"],
};
const DEEPSEEK: Group = Group {
    providers: &["deepseek"],
    urls: &["deepseek.com"],
};
const ZAI: Group = Group {
    providers: &["zai", "zai-coding-cn"],
    urls: &["api.z.ai", "open.bigmodel.cn"],
};
const MOONSHOT: Group = Group {
    providers: &["moonshotai", "moonshotai-cn"],
    urls: &["api.moonshot."],
};
const OPENCODE: Group = Group {
    providers: &["opencode", "opencode-go"],
    urls: &["opencode.ai"],
};
const CF_WORKERS: Group = Group {
    providers: &["cloudflare-workers-ai"],
    urls: &["api.cloudflare.com"],
};
const CF_GATEWAY: Group = Group {
    providers: &["cloudflare-ai-gateway"],
    urls: &["gateway.ai.cloudflare.com"],
};
const NVIDIA: Group = Group {
    providers: &["nvidia"],
    urls: &["integrate.api.nvidia.com"],
};
const TOGETHER: Group = Group {
    providers: &["together"],
    urls: &["api.together."],
};
const ANT_LING: Group = Group {
    providers: &["ant-ling"],
    urls: &["api.ant-ling.com"],
};
const OPENROUTER: Group = Group {
    providers: &["openrouter"],
    urls: &["openrouter.ai"],
};

/// What a group does to the defaults.
type Effect = fn(&mut Compat);

const RULES: &[(&[Group], Effect)] = &[
    (
        &[
            CEREBRAS, XAI, CHUTES, DEEPSEEK, ZAI, MOONSHOT, OPENCODE, CF_WORKERS, CF_GATEWAY,
            NVIDIA, TOGETHER, ANT_LING,
        ],
        |c| (c.supports_store, c.supports_developer_role) = (false, false),
    ),
    (
        &[XAI, ZAI, MOONSHOT, CF_GATEWAY, NVIDIA, TOGETHER, ANT_LING],
        |c| c.supports_reasoning_effort = false,
    ),
    (
        &[CHUTES, MOONSHOT, CF_GATEWAY, TOGETHER, NVIDIA, ANT_LING],
        |c| c.max_tokens_field = MaxTokensField::MaxTokens,
    ),
    (&[DEEPSEEK], |c| {
        c.thinking_format = ThinkingFormat::Deepseek;
        c.requires_reasoning_content_on_assistant_messages = true;
    }),
    (&[ZAI], |c| c.thinking_format = ThinkingFormat::Zai),
    (&[TOGETHER], |c| {
        c.thinking_format = ThinkingFormat::Together
    }),
    (&[ANT_LING], |c| c.thinking_format = ThinkingFormat::AntLing),
    (&[OPENROUTER], |c| {
        c.thinking_format = ThinkingFormat::Openrouter
    }),
    (&[MOONSHOT, CF_GATEWAY, TOGETHER, NVIDIA], |c| {
        c.supports_strict_mode = false
    }),
];

impl Compat {
    /// The quirks of the server of `model`. Settings that are unknown or of another type
    /// change nothing.
    pub(crate) fn of(model: &Model) -> Self {
        let mut compat = Self::detect(model);
        compat.apply(model);
        compat
    }

    fn detect(model: &Model) -> Self {
        let mut compat = Self::default();
        let base_url = model.base_url.to_lowercase();
        let is = |group: &Group| {
            group.providers.contains(&model.provider.as_str())
                || group.urls.iter().any(|url| base_url.contains(url))
        };
        for (groups, effect) in RULES {
            if groups.iter().any(is) {
                effect(&mut compat);
            }
        }
        if is(&OPENROUTER) {
            let anthropic = model.id.starts_with("anthropic/");
            compat.anthropic_cache_control = anthropic;
            compat.supports_developer_role = anthropic || model.id.starts_with("openai/");
        }
        compat
    }

    fn apply(&mut self, model: &Model) {
        let given = |name: &str| model.compat.get(name);
        let flags: [(&str, &mut bool); 10] = [
            ("supportsStore", &mut self.supports_store),
            ("supportsDeveloperRole", &mut self.supports_developer_role),
            (
                "supportsReasoningEffort",
                &mut self.supports_reasoning_effort,
            ),
            (
                "supportsUsageInStreaming",
                &mut self.supports_usage_in_streaming,
            ),
            (
                "requiresToolResultName",
                &mut self.requires_tool_result_name,
            ),
            (
                "requiresAssistantAfterToolResult",
                &mut self.requires_assistant_after_tool_result,
            ),
            (
                "requiresThinkingAsText",
                &mut self.requires_thinking_as_text,
            ),
            (
                "requiresReasoningContentOnAssistantMessages",
                &mut self.requires_reasoning_content_on_assistant_messages,
            ),
            ("supportsStrictMode", &mut self.supports_strict_mode),
            ("zaiToolStream", &mut self.zai_tool_stream),
        ];
        for (name, flag) in flags {
            if let Some(value) = given(name).and_then(Value::as_bool) {
                *flag = value;
            }
        }
        if let Some(field) =
            given("maxTokensField").and_then(|v| MaxTokensField::deserialize(v).ok())
        {
            self.max_tokens_field = field;
        }
        if let Some(format) =
            given("thinkingFormat").and_then(|v| ThinkingFormat::deserialize(v).ok())
        {
            self.thinking_format = format;
        }
        if let Some(format) = given("cacheControlFormat").and_then(Value::as_str) {
            self.anthropic_cache_control = format == "anthropic";
        }
        let object = |name: &str| given(name).filter(|v| v.is_object()).cloned();
        self.open_router_routing = object("openRouterRouting");
        self.vercel_gateway_routing = object("vercelGatewayRouting");
    }
}

impl Default for Compat {
    fn default() -> Self {
        Self {
            supports_store: true,
            supports_developer_role: true,
            supports_reasoning_effort: true,
            supports_usage_in_streaming: true,
            max_tokens_field: MaxTokensField::MaxCompletionTokens,
            requires_tool_result_name: false,
            requires_assistant_after_tool_result: false,
            requires_thinking_as_text: false,
            requires_reasoning_content_on_assistant_messages: false,
            thinking_format: ThinkingFormat::Openai,
            anthropic_cache_control: false,
            open_router_routing: None,
            vercel_gateway_routing: None,
            supports_strict_mode: true,
            zai_tool_stream: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(provider: &str, base_url: &str, id: &str, compat: &str) -> Model {
        serde_json::from_value(serde_json::json!({
            "id": id, "name": id, "api": "openai-completions", "provider": provider, "baseUrl": base_url,
            "input": ["text"], "contextWindow": 1, "maxTokens": 1,
            "compat": serde_json::from_str::<Value>(compat).unwrap(),
        }))
        .unwrap()
    }

    /// The letters of what differs from the defaults.
    fn shape(compat: &Compat) -> String {
        let defaults = Compat::default();
        let rows = [
            ("store", compat.supports_store != defaults.supports_store),
            (
                "developer",
                compat.supports_developer_role != defaults.supports_developer_role,
            ),
            (
                "effort",
                compat.supports_reasoning_effort != defaults.supports_reasoning_effort,
            ),
            (
                "max_tokens",
                compat.max_tokens_field == MaxTokensField::MaxTokens,
            ),
            (
                "strict",
                compat.supports_strict_mode != defaults.supports_strict_mode,
            ),
            (
                "reasoning",
                compat.requires_reasoning_content_on_assistant_messages,
            ),
            ("cache", compat.anthropic_cache_control),
        ];
        let mut out: Vec<String> = rows
            .iter()
            .filter(|(_, differs)| *differs)
            .map(|(n, _)| (*n).to_owned())
            .collect();
        if compat.thinking_format != ThinkingFormat::Openai {
            out.push(format!("{:?}", compat.thinking_format));
        }
        out.join(" ")
    }

    #[test]
    fn detection_by_provider_or_base_url() {
        let rows = [
            ("openai", "https://api.openai.com/v1", "m", ""),
            ("fake", "http://127.0.0.1:1/v1", "m", ""),
            ("cerebras", "", "m", "store developer"),
            (
                "custom",
                "https://api.cerebras.ai/v1",
                "m",
                "store developer",
            ),
            ("xai", "", "m", "store developer effort"),
            ("chutes", "", "m", "store developer max_tokens"),
            ("deepseek", "", "m", "store developer reasoning Deepseek"),
            (
                "custom",
                "https://api.deepseek.com",
                "m",
                "store developer reasoning Deepseek",
            ),
            ("zai", "", "m", "store developer effort Zai"),
            (
                "moonshotai",
                "",
                "m",
                "store developer effort max_tokens strict",
            ),
            ("opencode", "", "m", "store developer"),
            ("cloudflare-workers-ai", "", "m", "store developer"),
            (
                "cloudflare-ai-gateway",
                "",
                "m",
                "store developer effort max_tokens strict",
            ),
            (
                "nvidia",
                "",
                "m",
                "store developer effort max_tokens strict",
            ),
            (
                "together",
                "",
                "m",
                "store developer effort max_tokens strict Together",
            ),
            (
                "ant-ling",
                "",
                "m",
                "store developer effort max_tokens AntLing",
            ),
            ("openrouter", "", "z/m", "developer Openrouter"),
            ("openrouter", "", "openai/m", "Openrouter"),
            ("openrouter", "", "anthropic/m", "cache Openrouter"),
        ];
        for (provider, url, id, expected) in rows {
            assert_eq!(
                shape(&Compat::of(&model(provider, url, id, "{}"))),
                expected,
                "{provider} {url} {id}"
            );
        }
    }

    #[test]
    fn settings_win_and_unknown_ones_are_ignored() {
        let compat = r#"{"supportsStore":false,"maxTokensField":"max_tokens","thinkingFormat":"qwen-chat-template","supportsStrictMode":"no","later":1,"openRouterRouting":{"zdr":true}}"#;
        let compat = Compat::of(&model("fake", "", "m", compat));
        assert_eq!(shape(&compat), "store max_tokens QwenChatTemplate");
        assert_eq!(
            compat.open_router_routing,
            Some(serde_json::json!({"zdr": true}))
        );
        let compat = Compat::of(&model(
            "deepseek",
            "",
            "m",
            r#"{"supportsStore":true,"thinkingFormat":"strange"}"#,
        ));
        assert_eq!(shape(&compat), "developer reasoning Deepseek");
    }
}
