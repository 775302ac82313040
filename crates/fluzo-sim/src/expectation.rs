//! Whether a request is the one that a step expects.

use serde_json::Value;

use crate::dialect::view;
use crate::http::Incoming;
use crate::render::Asked;
use crate::scenario::{HeaderCheck, RequestExpectation};
use crate::view::View;

/// Lists every condition that the request does not meet.
pub(crate) fn unmet(
    expect: &RequestExpectation,
    request: &Incoming,
    asked: &Asked<'_>,
) -> Vec<String> {
    let mut unmet = Unmet(Vec::new());
    let view = view(asked.endpoint, asked.body);
    unmet.parameters(expect, request, asked);
    unmet.messages(expect, &view);
    unmet.tools(expect, &view);
    if let Some(limit) = expect.max_body_bytes {
        let size = request.raw.len();
        unmet.unless(size <= limit, || {
            format!("the body has {size} bytes, more than {limit}")
        });
    }
    for (name, check) in &expect.headers {
        let holds = header_holds(request, name, check);
        unmet.unless(holds, || {
            format!("header `{name}` is not {}", check.describe())
        });
    }
    unmet.0
}

struct Unmet(Vec<String>);

impl Unmet {
    fn unless(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    fn parameters(&mut self, expect: &RequestExpectation, request: &Incoming, asked: &Asked<'_>) {
        let body = asked.body;
        if let Some(target) = &expect.target {
            self.unless(request.path == *target, || {
                format!("the target is `{}` instead of `{target}`", request.path)
            });
        }
        if let Some(model) = &expect.model {
            self.unless(asked.model == model, || {
                format!("the model is not `{model}`")
            });
        }
        if let Some(stream) = expect.stream {
            let found = asked.stream;
            self.unless(found == stream, || format!("`stream` is {found}"));
        }
        for (pointer, value) in &expect.body {
            let found = body.pointer(pointer);
            let shown = || found.map_or("absent".to_owned(), Value::to_string);
            self.unless(found == Some(value), || {
                format!("`{pointer}` is {} instead of {value}", shown())
            });
        }
        for pointer in &expect.body_lacks {
            self.unless(body.pointer(pointer).is_none(), || {
                format!("`{pointer}` exists")
            });
        }
    }

    fn messages(&mut self, expect: &RequestExpectation, view: &View) {
        if let Some(text) = &expect.system_contains {
            let holds = view.system.contains(text);
            self.unless(holds, || {
                format!("the system message does not contain `{text}`")
            });
        }
        if let Some(text) = &expect.last_user_contains {
            let holds = view.last_user.contains(text);
            self.unless(holds, || {
                format!("the last user message does not contain `{text}`")
            });
        }
        let results = &view.fresh_results;
        let any = |text: &String| results.iter().any(|result| result.contains(text));
        for text in &expect.tool_result_contains {
            self.unless(any(text), || {
                format!(
                    "none of the {} new tool results contains `{text}`",
                    results.len()
                )
            });
        }
        for text in &expect.tool_result_lacks {
            self.unless(!any(text), || {
                format!("a new tool result contains `{text}`")
            });
        }
    }

    fn tools(&mut self, expect: &RequestExpectation, view: &View) {
        let tools = &view.tools;
        for tool in &expect.tools {
            self.unless(tools.contains(tool), || {
                format!("tool `{tool}` is not offered")
            });
        }
        if let Some(exact) = &expect.exact_tools {
            self.unless(*tools == *exact, || {
                format!("the offered tools are {tools:?}")
            });
        }
    }
}

impl HeaderCheck {
    fn describe(&self) -> String {
        match self {
            Self::Equals(value) => format!("equal to `{value}`"),
            Self::Contains(value) => format!("containing `{value}`"),
            Self::Present => "present".to_owned(),
            Self::Absent => "absent".to_owned(),
        }
    }
}

fn header_holds(request: &Incoming, name: &str, check: &HeaderCheck) -> bool {
    let values: Vec<&str> = request
        .headers
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect();
    match check {
        HeaderCheck::Equals(expected) => values == [expected],
        HeaderCheck::Contains(part) => values.iter().any(|value| value.contains(part)),
        HeaderCheck::Present => !values.is_empty(),
        HeaderCheck::Absent => values.is_empty(),
    }
}
