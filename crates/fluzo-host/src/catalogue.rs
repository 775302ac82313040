//! Providers and models that are known without configuration.

/// A provider that is known without configuration.
pub(crate) struct ProviderRow {
    pub(crate) id: &'static str,
    pub(crate) api: &'static str,
    pub(crate) base_url: &'static str,
    /// First: the provider's default.
    pub(crate) models: &'static [ModelRow],
}

/// A model that is known without configuration.
pub(crate) struct ModelRow {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    pub(crate) reasoning: bool,
    pub(crate) context_window: u64,
    pub(crate) max_tokens: u64,
}

/// All of them. Sizes and kinds as published by the provider.
pub(crate) const PROVIDERS: &[ProviderRow] = &[ProviderRow {
    id: "openai",
    api: "openai-completions",
    base_url: "https://api.openai.com/v1",
    models: &[
        ModelRow {
            id: "gpt-5.4",
            name: "GPT-5.4",
            reasoning: true,
            context_window: 272_000,
            max_tokens: 128_000,
        },
        ModelRow {
            id: "gpt-5",
            name: "GPT-5",
            reasoning: true,
            context_window: 400_000,
            max_tokens: 128_000,
        },
        ModelRow {
            id: "gpt-5-mini",
            name: "GPT-5 mini",
            reasoning: true,
            context_window: 400_000,
            max_tokens: 128_000,
        },
        ModelRow {
            id: "gpt-4.1",
            name: "GPT-4.1",
            reasoning: false,
            context_window: 1_047_576,
            max_tokens: 32_768,
        },
        ModelRow {
            id: "gpt-4o",
            name: "GPT-4o",
            reasoning: false,
            context_window: 128_000,
            max_tokens: 16_384,
        },
    ],
}];
