//! Tool calls and their results.

use fluzo_llm::message::ToolResultMessage;
use fluzo_llm::{Content, Extra, ToolCall};
use serde_json::Value;

use crate::escape;
use crate::highlight::{self, Highlighter, Language};
use crate::markdown::pre;
use crate::media;

/// How the arguments of a known tool are shown: which one stands in the summary, and which
/// one is code.
struct Shape {
    tool: &'static str,
    main: &'static str,
    code: Option<&'static str>,
}

const SHAPES: [Shape; 7] = [
    Shape {
        tool: "bash",
        main: "command",
        code: None,
    },
    Shape {
        tool: "read",
        main: "path",
        code: None,
    },
    Shape {
        tool: "write",
        main: "path",
        code: Some("content"),
    },
    Shape {
        tool: "edit",
        main: "path",
        code: None,
    },
    Shape {
        tool: "grep",
        main: "pattern",
        code: None,
    },
    Shape {
        tool: "find",
        main: "pattern",
        code: None,
    },
    Shape {
        tool: "ls",
        main: "path",
        code: None,
    },
];

/// Characters of an argument in a summary.
const SUMMARY: usize = 100;

/// A result, with the number of its entry when that has no item of its own.
pub(crate) struct Answer<'a> {
    pub(crate) number: Option<usize>,
    pub(crate) result: &'a ToolResultMessage,
}

/// Appends a call with its result, if there is one.
pub(crate) fn call(
    out: &mut String,
    call: &ToolCall,
    answer: Option<&Answer<'_>>,
    highlighter: &mut Highlighter,
) {
    let shape = SHAPES.iter().find(|shape| shape.tool == call.name);
    let failed = answer.is_some_and(|answer| answer.result.is_error);
    let diff = answer.and_then(|answer| diff_of(answer.result));
    // A short diff is what a reader looks for.
    let open = diff.is_some_and(|diff| diff.lines().count() <= 40);
    out.push_str(if open {
        "<details class=t open>"
    } else {
        "<details class=t>"
    });
    out.push_str("<summary><b>");
    escape::text(out, &call.name);
    out.push_str("</b>");
    let main = shape.and_then(|shape| call.arguments.get(shape.main)?.as_str());
    if let Some(main) = main {
        out.push_str(" <code>");
        escape::text(out, &escape::snippet(main, SUMMARY));
        out.push_str("</code>");
    }
    match answer {
        None => out.push_str(" <small>no result</small>"),
        Some(_) if failed => out.push_str(" <em>failed</em>"),
        Some(answer) => size(out, &answer.result.content),
    }
    out.push_str("</summary>");
    arguments(out, call, shape, diff.is_some(), highlighter);
    if let Some(answer) = answer {
        result(
            out,
            answer,
            main.filter(|_| call.name == "read"),
            highlighter,
        );
    }
    out.push_str("</details>");
}

/// Appends a result whose call stands elsewhere.
pub(crate) fn lone_result(out: &mut String, answer: &Answer<'_>, highlighter: &mut Highlighter) {
    out.push_str("<details class=t><summary>Result of <b>");
    escape::text(out, &answer.result.tool_name);
    out.push_str("</b>");
    if answer.result.is_error {
        out.push_str(" <em>failed</em>");
    } else {
        size(out, &answer.result.content);
    }
    out.push_str("</summary>");
    result(out, answer, None, highlighter);
    out.push_str("</details>");
}

/// Appends the JSON of `value`, indented unless that costs too much.
pub(crate) fn json(out: &mut String, value: &impl serde::Serialize, highlighter: &mut Highlighter) {
    // A value that cannot be written holds nothing that could be shown.
    let short = serde_json::to_string(value).unwrap_or_default();
    let long = serde_json::to_string_pretty(value).unwrap_or_default();
    let text = if long.len() <= short.len() * 3 / 2 + 64 {
        long
    } else {
        short
    };
    let html = highlighter.code(&text, Language::Name("json"));
    pre(out, &html);
}

fn size(out: &mut String, content: &[Content]) {
    let lines: usize = content
        .iter()
        .filter_map(Content::as_text)
        .map(|text| text.lines().count())
        .sum();
    if lines > 1 {
        out.push_str(&format!(" <small>{lines} lines</small>"));
    }
}

fn arguments(
    out: &mut String,
    call: &ToolCall,
    shape: Option<&Shape>,
    has_diff: bool,
    highlighter: &mut Highlighter,
) {
    if let Some(raw) = &call.raw_arguments {
        out.push_str("<p>Arguments that are no JSON object:</p>");
        pre(out, &escape::escaped(raw));
        return;
    }
    let mut rest: Extra = call.arguments.clone();
    if let Some(shape) = shape {
        let main = rest
            .get(shape.main)
            .and_then(Value::as_str)
            .map(str::to_owned);
        if let Some(main) = main {
            rest.shift_remove(shape.main);
            if escape::snippet(&main, SUMMARY) != main {
                let language = if shape.tool == "bash" { "bash" } else { "" };
                let html = highlighter.code(&main, Language::Name(language));
                pre(out, &html);
            }
            let code = shape
                .code
                .and_then(|key| Some((key, rest.get(key)?.as_str()?.to_owned())));
            if let Some((key, code)) = code {
                rest.shift_remove(key);
                let html = highlighter.code(&code, Language::Path(&main));
                pre(out, &html);
            }
        }
        if shape.tool == "edit" {
            edits(out, &mut rest, has_diff);
        }
    }
    if !rest.is_empty() {
        json(out, &rest, highlighter);
    }
}

/// Shows edits as removed and added text, unless the result has the diff.
fn edits(out: &mut String, arguments: &mut Extra, has_diff: bool) {
    let text = |edit: &Value, key: &str| edit.get(key).and_then(Value::as_str).map(str::to_owned);
    let of = |edit: &Value| Some((text(edit, "oldText")?, text(edit, "newText")?));
    let listed = arguments.get("edits").and_then(Value::as_array);
    let Some(edits) = listed.map(|list| list.iter().map(of).collect::<Option<Vec<_>>>()) else {
        return;
    };
    let Some(edits) = edits else {
        return;
    };
    arguments.shift_remove("edits");
    if has_diff {
        return;
    }
    for (old, new) in edits {
        let html = format!(
            "<del>{}</del>\n<ins>{}</ins>",
            escape::escaped(&old),
            escape::escaped(&new)
        );
        pre(out, &html);
    }
}

fn diff_of(result: &ToolResultMessage) -> Option<&str> {
    let diff = result.details.as_ref()?.get("diff")?.as_str()?;
    (result.tool_name == "edit" && !diff.is_empty()).then_some(diff)
}

fn result(
    out: &mut String,
    answer: &Answer<'_>,
    path: Option<&str>,
    highlighter: &mut Highlighter,
) {
    match answer.number {
        Some(number) => out.push_str(&format!("<div id=n{number}>")),
        None => out.push_str("<div>"),
    }
    if let Some(diff) = diff_of(answer.result) {
        pre(out, &highlight::diff(diff));
    }
    for block in &answer.result.content {
        match block {
            Content::Text(text) => {
                let code = path.filter(|_| !answer.result.is_error);
                let html = match code {
                    Some(path) => highlighter.code(&text.text, Language::Path(path)),
                    None => escape::escaped(&text.text),
                };
                pre(out, &html);
            }
            block => media::block(out, block, highlighter),
        }
    }
    out.push_str("</div>");
}
