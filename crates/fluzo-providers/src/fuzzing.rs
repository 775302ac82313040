//! Properties that hold for every input, as plain functions: `fuzz/` runs them under a
//! fuzzer, the test below over its corpus and findings.

#![allow(clippy::panic, reason = "a property that does not hold panics")]

use std::sync::Arc;

use fluzo_llm::{
    ModelRequest, RequestAuth, RequestOptions, StreamEvent, ToolCall, ToolSpec, Transcript,
};
use serde_json::json;

use crate::assemble::{Blocks, Ending, Events, Fragment};
use crate::dialect::SPOKEN;
use crate::drive::{End, Reader};
use crate::failure::Context;
use crate::limits::Limits;
use crate::reader::{BodyReader, incomplete};
use crate::redact::Redactor;
use crate::sse::{EventTooLarge, SseParser};

/// Largest event that the parsers accept here, in bytes.
const EVENT_LIMIT: usize = 4096;

/// The stream parser finds the same events however the bytes are cut; the first byte says how.
///
/// # Panics
///
/// When it does not.
pub fn stream(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else {
        return;
    };
    let whole = events_of(&[body]);
    let step = usize::from(*cut).max(1);
    let pieces: Vec<&[u8]> = body.chunks(step).collect();
    assert_eq!(whole, events_of(&pieces), "cut every {step} bytes");
}

fn events_of(pieces: &[&[u8]]) -> (Vec<(String, String)>, bool, Option<String>) {
    let mut parser = SseParser::new(EVENT_LIMIT);
    let mut events = Vec::new();
    for piece in pieces {
        let fed = parser.feed::<EventTooLarge, _>(piece, |event| {
            events.push((event.event.to_owned(), event.data.to_owned()));
            Ok(())
        });
        if fed.is_err() {
            return (events, true, None);
        }
    }
    let trailing = parser.trailing();
    (events, false, trailing)
}

/// Whatever a server answers, in whatever dialect and pieces, the response is blocks that
/// begin in order and end once, and then exactly one last event. The first byte chooses the
/// dialect, the second the pieces, the third how the body ends.
///
/// # Panics
///
/// When it is not so.
pub fn response(data: &[u8]) {
    let [dialect, cut, end, body @ ..] = data else {
        return;
    };
    let (_, dialect) = SPOKEN[usize::from(*dialect) % SPOKEN.len()];
    let context = Context {
        redactor: Redactor::default(),
        clock: Arc::new(|| 0),
    };
    let limits = Limits {
        max_event_bytes: EVENT_LIMIT,
        ..Limits::open(true)
    };
    let meaning = dialect.meaning(&request(), context.clone());
    let mut reader = BodyReader::new(meaning, &limits, context);
    let (mut out, mut last) = (Events::new(), None);
    for piece in body.chunks(usize::from(*cut).max(1)) {
        match reader.push(piece, &mut out) {
            Ok(progress) if progress.complete => break,
            Ok(_) => {}
            Err(error) => {
                last = Some(End::Failed(error));
                break;
            }
        }
    }
    let ended = match end % 3 {
        0 => End::Clean,
        1 => End::Cut(incomplete("cut")),
        _ => End::Failed(incomplete("failed")),
    };
    reader.finish(last.unwrap_or(ended), &mut out);
    check_grammar(out.make_contiguous());
}

fn request() -> ModelRequest {
    let model = json!({
        "id": "m", "name": "m", "api": "a", "provider": "p", "baseUrl": "http://h/v1",
        "input": ["text"], "contextWindow": 1000, "maxTokens": 100, "reasoning": true,
    });
    ModelRequest {
        model: Arc::new(serde_json::from_value(model).unwrap_or_else(|error| panic!("{error}"))),
        system_prompt: "".into(),
        transcript: Transcript::default(),
        tools: tools(),
        options: RequestOptions::default(),
        auth: RequestAuth::default(),
    }
}

fn tools() -> Arc<[ToolSpec]> {
    let spec = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    Arc::new([spec("read"), spec("read_all")])
}

/// Starts count up from zero, deltas and ends fit their block, all blocks end once, and one
/// last event follows.
///
/// # Panics
///
/// When it is not so.
pub fn check_grammar(events: &[StreamEvent]) {
    let mut open: Vec<(&str, bool)> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match event {
            StreamEvent::Start => {}
            StreamEvent::TextStart { index } => begin(&mut open, *index, "text"),
            StreamEvent::ThinkingStart { index } => begin(&mut open, *index, "thinking"),
            StreamEvent::ToolCallStart { index, .. } => begin(&mut open, *index, "call"),
            StreamEvent::TextDelta { index, .. } => expect(&open, *index, "text"),
            StreamEvent::ThinkingDelta { index, .. } => expect(&open, *index, "thinking"),
            StreamEvent::ToolCallDelta { index, .. } => expect(&open, *index, "call"),
            StreamEvent::TextEnd { index, .. } => finish(&mut open, *index, "text"),
            StreamEvent::ThinkingEnd { index, .. } => finish(&mut open, *index, "thinking"),
            StreamEvent::ToolCallEnd { index, .. } => finish(&mut open, *index, "call"),
            StreamEvent::Done(_) | StreamEvent::Failed(_) => {
                assert_eq!(at, events.len() - 1, "the last event comes last");
            }
        }
    }
    assert!(
        events.last().is_some_and(StreamEvent::is_last),
        "there is a last event"
    );
    assert!(open.iter().all(|(_, open)| !open), "all blocks end");
}

fn begin<'a>(open: &mut Vec<(&'a str, bool)>, index: usize, kind: &'a str) {
    assert_eq!(index, open.len(), "blocks count up");
    open.push((kind, true));
}

fn expect(open: &[(&str, bool)], index: usize, kind: &str) {
    assert_eq!(open.get(index), Some(&(kind, true)), "block {index}");
}

fn finish(open: &mut [(&str, bool)], index: usize, kind: &str) {
    expect(open, index, kind);
    open[index].1 = false;
}

/// However the pieces of tool calls come, ids are unique, arguments are an object or the call
/// is marked as one that never runs, and what was cut off before its arguments never runs.
/// The bytes are fragments: flags, then fields that end in a zero byte.
///
/// # Panics
///
/// When it is not so.
pub fn arguments(data: &[u8]) {
    let Some((cut, mut rest)) = data.split_first() else {
        return;
    };
    let ending = if cut % 2 == 0 {
        Ending::Complete
    } else {
        Ending::Cut
    };
    let (mut blocks, mut out) = (Blocks::new(tools()), Events::new());
    while let Some((flags, after)) = rest.split_first() {
        rest = after;
        let mut field = |wanted: bool| match wanted {
            true => {
                let end = rest.iter().position(|byte| *byte == 0);
                let (text, after) = rest.split_at(end.unwrap_or(rest.len()));
                rest = after.get(1..).unwrap_or_default();
                String::from_utf8_lossy(text).into_owned()
            }
            false => String::new(),
        };
        let fragment = Fragment {
            id: field(flags & 1 != 0),
            name: field(flags & 2 != 0),
            arguments: field(flags & 4 != 0),
            index: (flags & 8 != 0).then_some(u64::from(flags >> 6)),
            place: (flags & 16 != 0).then_some(usize::from(flags >> 5) & 1),
        };
        blocks.fragment(fragment, &mut out);
    }
    blocks.close(ending, &|id| id == "call_1", &mut out);
    let calls: Vec<&ToolCall> = out
        .iter()
        .filter_map(|event| match event {
            StreamEvent::ToolCallEnd { call, .. } => Some(&**call),
            _ => None,
        })
        .collect();
    let mut ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), calls.len(), "ids are unique");
    assert!(!ids.contains(&""), "no id is empty");
    for call in calls {
        let sent: String = out
            .iter()
            .filter_map(|event| delta_of(event, call, &out))
            .collect();
        let runs = call.raw_arguments.is_none();
        assert!(
            !(runs && ending == Ending::Cut && sent.trim().is_empty()),
            "{call:?}"
        );
        assert!(runs || call.arguments.is_empty(), "{call:?}");
    }
}

/// The argument text that `event` adds to `call`.
fn delta_of<'a>(event: &'a StreamEvent, call: &ToolCall, all: &Events) -> Option<&'a str> {
    let at = all.iter().find_map(|event| match event {
        StreamEvent::ToolCallEnd { index, call: ended } if ended.id == call.id => Some(*index),
        _ => None,
    });
    match event {
        StreamEvent::ToolCallDelta { index, delta } if Some(*index) == at => Some(delta),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "the corpus is files")]

    use fluzo_llm::{AssistantMessage, Content};

    use super::*;
    use crate::provider::Dialect;

    /// Every input of the corpus and every finding, which the fuzzer leaves as files.
    fn check(target: &str, property: fn(&[u8])) {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/");
        let mut files: Vec<_> = std::fs::read_dir(format!("{root}{target}"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        assert!(files.len() >= 10, "{target} has {} inputs", files.len());
        for file in files {
            let data = std::fs::read(&file).unwrap();
            let held = std::panic::catch_unwind(|| property(&data));
            assert!(held.is_ok(), "{}", file.display());
        }
    }

    /// The recorded stream of the dialect `api`.
    fn recorded(api: &str) -> Vec<u8> {
        let stream = match api {
            "openai-completions" => "completions",
            api if api.contains("responses") => "responses",
            api if api.contains("anthropic") => "anthropic",
            _ => "gemini",
        };
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/response/0-");
        // The first bytes choose dialect and pieces.
        std::fs::read(format!("{root}{stream}")).unwrap()[3..].to_vec()
    }

    /// The response that `body` is, and whether it is whole.
    fn read(dialect: &dyn Dialect, body: &[u8], end: End) -> (AssistantMessage, bool) {
        let context = Context {
            redactor: Redactor::default(),
            clock: Arc::new(|| 0),
        };
        let request = request();
        let meaning = dialect.meaning(&request, context.clone());
        let mut reader = BodyReader::new(meaning, &Limits::open(true), context);
        let mut out = Events::new();
        let failed = reader.push(body, &mut out).err().map(End::Failed);
        reader.finish(failed.unwrap_or(end), &mut out);
        check_grammar(out.make_contiguous());
        let mut message = AssistantMessage::begin(&request.model, 0);
        out.iter().for_each(|event| message.apply(event));
        let whole = matches!(out.back(), Some(StreamEvent::Done(_)));
        (message, whole)
    }

    #[test]
    fn streams_cut_after_every_byte() {
        for (api, dialect) in SPOKEN {
            let body = recorded(api);
            let (whole, complete) = read(*dialect, &body, End::Clean);
            assert!(complete, "{api}: {whole:?}");
            assert!(whole.tool_calls().next().is_some(), "{api}");
            for at in 0..body.len() {
                for end in [End::Clean, End::Cut(incomplete("cut"))] {
                    let (message, complete) = read(*dialect, &body[..at], end);
                    if complete {
                        assert_eq!(message.content, whole.content, "{api} after {at}");
                        continue;
                    }
                    let error = message.error_message.clone();
                    assert!(error.is_some(), "{api} after {at}");
                    let begun = message.tool_calls().filter(|call| {
                        !whole.content.contains(&Content::ToolCall((*call).clone()))
                    });
                    for call in begun {
                        assert!(call.raw_arguments.is_some(), "{api} after {at}: {call:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn streams_of_the_corpus() {
        check("stream", stream);
    }

    #[test]
    fn responses_of_the_corpus() {
        check("response", response);
    }

    #[test]
    fn arguments_of_the_corpus() {
        check("arguments", arguments);
    }
}
