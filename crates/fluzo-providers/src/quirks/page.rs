//! The table as a page of the documentation.

use std::fmt::Write;

use super::other_dialects::{MESSAGES, RESPONSES, USUAL_MESSAGES};
use super::refusals::{COMPLAINTS, NAMES, SILENCE, STATUSES, TEXTS};
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
    out.push_str(OTHERS);
    for (name, quirks) in MESSAGES {
        let (mut own, mut usual) = (*quirks, USUAL_MESSAGES);
        let differs: Vec<_> = flag_differences(&own.flags(), &usual.flags()).collect();
        line(&mut out, &[name, "Anthropic Messages", &differs.join(", ")]);
    }
    for (name, quirks) in RESPONSES {
        let differs = match quirks.no_effort {
            true => "",
            false => "the effort `none` is left out",
        };
        line(&mut out, &[name, "Responses", differs]);
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
    paragraph(
        &mut out,
        &format!(
            "An answer that begins with status 200 and has no byte counts as a refusal of the form as well; {} is tried. \
             Servers whose chat template fails after the head was sent do that, llama-cpp-python among them.",
            code(&SILENCE.setting())
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
# Quirks of servers

Written from the table in `crates/fluzo-providers/src/quirks/`; the test
`fluzo-providers::it::quirks::the_page_shows_the_table` fails when the two differ.

A server is known by its base URL, else by its provider id; a server that is not known is taken
for OpenAI's. A key of `compat` in `models.json` wins over the table.

## Chat Completions

| family | provider ids | in the base URL | differs from the usual | habits that need no switch |
| --- | --- | --- | --- | --- |
";

const OTHERS: &str = "
## Other dialects

Families that differ from Anthropic's or OpenAI's own server where they speak its dialect.

| family | dialect | differs from the usual |
| --- | --- | --- |
";

const FINISH: &str = "
## Finish reasons in Chat Completions

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
    let (mut own, mut usual) = (*quirks, USUAL);
    let mut out: Vec<String> = named_differences(quirks).into_iter().flatten().collect();
    out.extend(flag_differences(&own.flags(), &usual.flags()));
    out
}

fn named_differences(quirks: &Quirks) -> [Option<String>; 8] {
    let setting =
        |name: &str, value: &str, differs: bool| differs.then(|| code(&format!("{name}: {value}")));
    let models = |name: &str, models: ForModels, usual: ForModels| {
        (models != usual).then(|| match models {
            ForModels::All => format!("{name} for all models"),
            ForModels::None => format!("{name} for no model"),
            ForModels::Named(begins) => format!("{name} for `{}*`", begins.join("*`, `")),
        })
    };
    let content = match quirks.call_only_content {
        CallOnlyContent::Null => None,
        CallOnlyContent::Empty => Some(code("callOnlyContent: empty")),
        CallOnlyContent::LeftOut => Some(code("callOnlyContent: none")),
    };
    let reasoning = match quirks.reasoning {
        Replay::Kept => None,
        Replay::Required => Some(code("requiresReasoningContentOnAssistantMessages: true")),
        Replay::Never => Some(code("replaysReasoning: false")),
    };
    let ids = match quirks.ids {
        IdForm::Any => None,
        IdForm::AtMost40 => Some("ids of at most 40 characters".to_owned()),
        IdForm::Short => Some(code("toolCallIds: short")),
    };
    let capped = quirks.max_tokens_field == MaxTokensField::MaxTokens;
    let format = quirks.thinking_format;
    [
        content,
        setting("userContent", "text", quirks.plain_user_content),
        reasoning,
        ids,
        setting("maxTokensField", "max_tokens", capped),
        setting(
            "thinkingFormat",
            format_name(format),
            format != USUAL.thinking_format,
        ),
        models(
            "role `developer`",
            quirks.developer_role,
            USUAL.developer_role,
        ),
        models(
            "`cacheControlFormat: anthropic`",
            quirks.cache_marks,
            USUAL.cache_marks,
        ),
    ]
}

/// Settings of `flags` that are not as in `usual`, in the same order.
fn flag_differences<'a>(
    flags: &'a [(&'static str, &mut bool)],
    usual: &'a [(&'static str, &mut bool)],
) -> impl Iterator<Item = String> + 'a {
    let pairs = flags.iter().zip(usual);
    let differs = pairs.filter(|((_, flag), (_, usual))| **flag != **usual);
    differs.map(|((name, flag), _)| code(&format!("{name}: {flag}")))
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
