//! The table as a page of the documentation.

use std::fmt::Write;

use super::refusals::{COMPLAINTS, NAMES, STATUSES, TEXTS};
use super::{
    CallOnlyContent, FAMILIES, FINISH_REASONS, Family, FinishMeaning, ForModels, IdForm,
    MaxTokensField, Quirks, Replay, ThinkingFormat, USUAL,
};

/// The text of `docs/quirks.md`.
pub fn page() -> String {
    let mut out = String::from(BEGIN);
    for family in FAMILIES {
        row(&mut out, family);
    }
    out.push_str(FINISH);
    for (reason, meaning, who) in FINISH_REASONS {
        line(&mut out, &[&format!("`{reason}`"), meant(*meaning), who]);
    }
    out.push_str(REFUSALS);
    let statuses: Vec<String> = STATUSES.iter().map(u16::to_string).collect();
    let complaints: Vec<String> = COMPLAINTS.iter().map(|text| format!("*{text}*")).collect();
    paragraph(
        &mut out,
        &format!(
            "Statuses {} count, and errors inside a stream. A *name* counts beside one of these complaints: {}.",
            statuses.join(", "),
            complaints.join(", ")
        ),
    );
    out.push_str("| in the text | setting that is tried |\n| --- | --- |\n");
    for (pattern, switch) in TEXTS {
        line(&mut out, &[&code(pattern), &code(&switch.setting())]);
    }
    for (name, switch) in NAMES {
        let name = format!("the name {}", code(name));
        line(&mut out, &[&name, &code(&switch.setting())]);
    }
    out
}

const BEGIN: &str = "\
# Quirks of Chat Completions servers

Written from the table in `crates/fluzo-providers/src/quirks/`; the test
`fluzo-providers::it::quirks::the_page_shows_the_table` fails when the two differ.

A server is known by its base URL, else by its provider id; a server that is not known is taken
for OpenAI's. A key of `compat` in `models.json` wins over the table.

| family | provider ids | in the base URL | differs from the usual | habits that need no switch |
| --- | --- | --- | --- | --- |
";

const FINISH: &str = "
## Finish reasons

Any other reason counts as a refusal by model or server. Upper and lower case are the same.

| reason | meaning | sent by |
| --- | --- | --- |
";

const REFUSALS: &str = "
## Refusals that switch a form

The first row that would change the request counts. In the open profile the request is made once
more with the setting, which then holds for that base URL and model until the process ends. A key
that the model's `compat` has is never switched.

";

fn row(out: &mut String, family: &Family) {
    let list = |items: &[&str]| {
        items
            .iter()
            .map(|item| code(item))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let differs = differences(&family.quirks).join(", ");
    line(
        out,
        &[
            family.name,
            &list(family.providers),
            &list(family.urls),
            &differs,
            family.habits,
        ],
    );
}

/// What is unlike [`USUAL`], as settings of `compat` where there are such.
fn differences(quirks: &Quirks) -> Vec<String> {
    let flag = |name: &str, value: bool, usual: bool| {
        (value != usual).then(|| code(&format!("{name}: {value}")))
    };
    let text =
        |name: &str, value: &str, differs: bool| differs.then(|| code(&format!("{name}: {value}")));
    let content = match quirks.call_only_content {
        CallOnlyContent::Null => "null",
        CallOnlyContent::Empty => "empty",
        CallOnlyContent::LeftOut => "none",
    };
    let models = |name: &str, models: ForModels, usual: ForModels| {
        (models != usual).then(|| match models {
            ForModels::All => format!("{name} for all models"),
            ForModels::None => format!("{name} for no model"),
            ForModels::Named(begins) => format!("{name} for `{}*`", begins.join("*`, `")),
        })
    };
    [
        text(
            "callOnlyContent",
            content,
            quirks.call_only_content != USUAL.call_only_content,
        ),
        text("userContent", "text", quirks.plain_user_content),
        match quirks.reasoning {
            Replay::Kept => None,
            Replay::Required => Some(code("requiresReasoningContentOnAssistantMessages: true")),
            Replay::Never => Some(code("replaysReasoning: false")),
        },
        flag(
            "requiresThinkingAsText",
            quirks.thinking_as_text,
            USUAL.thinking_as_text,
        ),
        match quirks.ids {
            IdForm::Any => None,
            IdForm::AtMost40 => Some("ids of at most 40 characters".to_owned()),
            IdForm::Short => Some(code("toolCallIds: short")),
        },
        text(
            "maxTokensField",
            "max_tokens",
            quirks.max_tokens_field == MaxTokensField::MaxTokens,
        ),
        models(
            "role `developer`",
            quirks.developer_role,
            USUAL.developer_role,
        ),
        flag(
            "supportsUsageInStreaming",
            quirks.stream_usage,
            USUAL.stream_usage,
        ),
        flag("supportsStore", quirks.store, USUAL.store),
        flag("supportsStrictMode", quirks.strict, USUAL.strict),
        flag(
            "supportsReasoningEffort",
            quirks.reasoning_effort,
            USUAL.reasoning_effort,
        ),
        text(
            "thinkingFormat",
            format_name(quirks.thinking_format),
            quirks.thinking_format != USUAL.thinking_format,
        ),
        flag(
            "supportsLongCacheRetention",
            quirks.long_cache,
            USUAL.long_cache,
        ),
        models(
            "`cacheControlFormat: anthropic`",
            quirks.cache_marks,
            USUAL.cache_marks,
        ),
        flag(
            "sendSessionAffinityHeaders",
            quirks.session_affinity,
            USUAL.session_affinity,
        ),
        flag(
            "requiresToolResultName",
            quirks.tool_result_name,
            USUAL.tool_result_name,
        ),
        flag(
            "requiresAssistantAfterToolResult",
            quirks.answer_after_results,
            USUAL.answer_after_results,
        ),
        flag("zaiToolStream", quirks.tool_stream, USUAL.tool_stream),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn format_name(format: ThinkingFormat) -> &'static str {
    match format {
        ThinkingFormat::Openai => "openai",
        ThinkingFormat::Openrouter => "openrouter",
        ThinkingFormat::Deepseek => "deepseek",
        ThinkingFormat::Zai => "zai",
        ThinkingFormat::Qwen => "qwen",
        ThinkingFormat::QwenChatTemplate => "qwen-chat-template",
        ThinkingFormat::Together => "together",
        ThinkingFormat::StringThinking => "string-thinking",
        ThinkingFormat::AntLing => "ant-ling",
    }
}

fn meant(meaning: FinishMeaning) -> &'static str {
    match meaning {
        FinishMeaning::Stop => "complete",
        FinishMeaning::Length => "the cap on output was reached",
        FinishMeaning::ToolUse => "calls tools",
        FinishMeaning::Failed => "the server failed: transient",
        FinishMeaning::Full => "the server is full: capacity",
        FinishMeaning::Overflow => "the context window was too small: overflow",
        FinishMeaning::Unsaid => "nothing: end marker, usage and content decide",
    }
}

fn code(text: &str) -> String {
    match text.contains('`') {
        true => format!("`` {text} ``"),
        false => format!("`{text}`"),
    }
}

fn line(out: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn paragraph(out: &mut String, text: &str) {
    let mut width = 0;
    for word in text.split(' ') {
        if width > 0 && width + word.len() > 98 {
            out.push('\n');
            width = 0;
        }
        if width > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += word.len();
    }
    out.push_str("\n\n");
}
