//! What counts for one request: the quirks of the server's family, changed by the model's
//! `compat` settings, changed by the form switches that a refusal led to.

use fluzo_llm::{FormSwitch, Model};
use serde::Deserialize;
use serde_json::Value;

use crate::quirks::{
    CallOnlyContent, IdForm, MaxTokensField, Quirks, Replay, ThinkingFormat, USUAL, family,
};

/// What counts for requests to one model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compat {
    pub quirks: Quirks,
    /// The system prompt of a thinking model has the role `developer`.
    pub developer_role: bool,
    /// Requests are marked for caching as Anthropic does it.
    pub cache_marks: bool,
    pub open_router_routing: Option<Value>,
    pub vercel_gateway_routing: Option<Value>,
}

impl Compat {
    /// What counts for `model` at `base_url` when `forms` are in effect. Settings that are
    /// unknown or of another type change nothing.
    pub(crate) fn of(model: &Model, base_url: &str, forms: &[FormSwitch]) -> Self {
        let quirks = family(&model.provider, base_url).map_or(USUAL, |family| family.quirks);
        let mut compat = Self {
            quirks,
            developer_role: quirks.developer_role.holds(&model.id),
            cache_marks: quirks.cache_marks.holds(&model.id),
            open_router_routing: None,
            vercel_gateway_routing: None,
        };
        for (key, value) in &model.compat {
            compat.set(key, value);
        }
        for switch in forms {
            if let Ok(value) = serde_json::from_str(switch.value()) {
                compat.set(switch.key(), &value);
            }
        }
        compat
    }

    /// The field that caps the output.
    pub(crate) fn caps_with(&self, field: MaxTokensField) -> bool {
        self.quirks.max_tokens_field == field
    }

    fn set(&mut self, key: &str, value: &Value) {
        if let (Some(flag), Some(value)) = (self.flag(key), value.as_bool()) {
            *flag = value;
            return;
        }
        let quirks = &mut self.quirks;
        match (key, value) {
            ("requiresReasoningContentOnAssistantMessages", Value::Bool(required)) => {
                quirks.reasoning = match (required, quirks.reasoning) {
                    (true, _) => Replay::Required,
                    (false, Replay::Required) => Replay::Kept,
                    (false, other) => other,
                }
            }
            ("replaysReasoning", Value::Bool(false)) => quirks.reasoning = Replay::Never,
            ("replaysReasoning", Value::Bool(true)) if quirks.reasoning == Replay::Never => {
                quirks.reasoning = Replay::Kept;
            }
            ("openRouterRouting", Value::Object(_)) => {
                self.open_router_routing = Some(value.clone());
            }
            ("vercelGatewayRouting", Value::Object(_)) => {
                self.vercel_gateway_routing = Some(value.clone());
            }
            (key, Value::String(name)) => self.set_name(key, name),
            _ => {}
        }
    }

    fn flag(&mut self, key: &str) -> Option<&mut bool> {
        if key == "supportsDeveloperRole" {
            return Some(&mut self.developer_role);
        }
        let mut flags = self.quirks.flags().into_iter();
        flags.find_map(|(name, flag)| (name == key).then_some(flag))
    }

    fn set_name(&mut self, key: &str, name: &str) {
        let quirks = &mut self.quirks;
        match (key, name) {
            ("maxTokensField", "max_tokens") => quirks.max_tokens_field = MaxTokensField::MaxTokens,
            ("maxTokensField", "max_completion_tokens") => {
                quirks.max_tokens_field = MaxTokensField::MaxCompletionTokens;
            }
            ("callOnlyContent", "null") => quirks.call_only_content = CallOnlyContent::Null,
            ("callOnlyContent", "empty") => quirks.call_only_content = CallOnlyContent::Empty,
            ("callOnlyContent", "none") => quirks.call_only_content = CallOnlyContent::LeftOut,
            ("userContent", "text") => quirks.plain_user_content = true,
            ("userContent", "parts") => quirks.plain_user_content = false,
            ("toolCallIds", "short") => quirks.ids = IdForm::Short,
            ("toolCallIds", "any") => quirks.ids = IdForm::Any,
            ("cacheControlFormat", format) => self.cache_marks = format == "anthropic",
            ("thinkingFormat", format) => {
                let format = Value::from(format);
                if let Ok(format) = ThinkingFormat::deserialize(&format) {
                    quirks.thinking_format = format;
                }
            }
            _ => {}
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

    fn of(model: &Model) -> Compat {
        Compat::of(model, &model.base_url, &[])
    }

    /// The letters of what differs from the usual.
    fn shape(compat: &Compat) -> String {
        let quirks = &compat.quirks;
        let rows = [
            ("store", !quirks.store),
            ("developer", !compat.developer_role),
            ("effort", !quirks.reasoning_effort),
            (
                "max_tokens",
                quirks.max_tokens_field == MaxTokensField::MaxTokens,
            ),
            ("strict", !quirks.strict),
            ("reasoning", quirks.reasoning == Replay::Required),
            ("cache", compat.cache_marks),
            ("short_cache", !quirks.long_cache),
        ];
        let mut out: Vec<String> = rows
            .iter()
            .filter(|(_, differs)| *differs)
            .map(|(n, _)| (*n).to_owned())
            .collect();
        if quirks.thinking_format != ThinkingFormat::Openai {
            out.push(format!("{:?}", quirks.thinking_format));
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
            (
                "cloudflare-workers-ai",
                "",
                "m",
                "store developer short_cache",
            ),
            (
                "cloudflare-ai-gateway",
                "",
                "m",
                "store developer effort max_tokens strict short_cache",
            ),
            (
                "nvidia",
                "",
                "m",
                "store developer effort max_tokens strict short_cache",
            ),
            (
                "together",
                "",
                "m",
                "store developer effort max_tokens strict short_cache Together",
            ),
            (
                "ant-ling",
                "",
                "m",
                "store developer effort max_tokens short_cache AntLing",
            ),
            ("openrouter", "", "z/m", "developer Openrouter"),
            ("openrouter", "", "openai/m", "Openrouter"),
            ("openrouter", "", "anthropic/m", "cache Openrouter"),
        ];
        for (provider, url, id, expected) in rows {
            assert_eq!(
                shape(&of(&model(provider, url, id, "{}"))),
                expected,
                "{provider} {url} {id}"
            );
        }
    }

    #[test]
    fn settings_win_and_unknown_ones_are_ignored() {
        let compat = r#"{"supportsStore":false,"maxTokensField":"max_tokens","thinkingFormat":"qwen-chat-template","supportsStrictMode":"no","later":1,"openRouterRouting":{"zdr":true}}"#;
        let compat = of(&model("fake", "", "m", compat));
        assert_eq!(shape(&compat), "store max_tokens QwenChatTemplate");
        assert_eq!(
            compat.open_router_routing,
            Some(serde_json::json!({"zdr": true}))
        );
        let compat = of(&model(
            "deepseek",
            "",
            "m",
            r#"{"supportsStore":true,"thinkingFormat":"strange"}"#,
        ));
        assert_eq!(shape(&compat), "developer reasoning Deepseek");
    }

    #[test]
    fn a_form_switch_counts_like_its_setting_and_wins() {
        for switch in FormSwitch::ALL {
            let setting = format!("{{{}}}", switch.setting());
            let set = model("fake", "", "m", &setting);
            let plain = model("fake", "", "m", "{}");
            let switched = Compat::of(&plain, "", &[switch]);
            assert_eq!(switched, of(&set), "{switch:?}");
            // Those for what is usual anyway change nothing.
            let usual = matches!(
                switch,
                FormSwitch::NullContent | FormSwitch::MaxCompletionTokens
            );
            assert_eq!(switched == of(&plain), usual, "{switch:?}");
        }
        let set = model(
            "fake",
            "",
            "m",
            r#"{"maxTokensField":"max_completion_tokens"}"#,
        );
        let compat = Compat::of(&set, "", &[FormSwitch::MaxTokens]);
        assert!(compat.caps_with(MaxTokensField::MaxTokens));
    }

    #[test]
    fn the_address_that_the_credentials_name_counts() {
        let model = model("fake", "http://h", "m", "{}");
        let compat = Compat::of(&model, "https://api.deepseek.com/v1", &[]);
        assert_eq!(shape(&compat), "store developer reasoning Deepseek");
    }
}
