//! The driver over scripted bodies, on a virtual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use reqwest::Url;
use reqwest::header::HeaderMap;

use super::*;
use crate::redact::Redactor;
use fluzo_llm::{StopReason, Usage};

/// Every line of the body is one text delta; `end` ends the response, `:` is a comment.
struct Lines {
    output: bool,
    /// Input tokens that the response reports.
    input: u64,
}

impl Reader for Lines {
    fn push(&mut self, bytes: &[u8], out: &mut Events) -> Result<Progress, StreamError> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let progress = |output, complete| Progress {
            alive: text != ":",
            output,
            ending: text == "fin",
            complete,
        };
        if text == "end" || text == ":" || text == "fin" {
            return Ok(progress(self.output, text == "end"));
        }
        if !std::mem::replace(&mut self.output, true) {
            out.push_back(StreamEvent::TextStart { index: 0 });
        }
        out.push_back(StreamEvent::TextDelta {
            index: 0,
            delta: text.clone(),
        });
        Ok(progress(true, false))
    }

    fn finish(&mut self, end: End, out: &mut Events) {
        if self.output {
            out.push_back(StreamEvent::TextEnd {
                index: 0,
                signature: None,
            });
        }
        out.push_back(match end {
            End::Clean => {
                let usage = Usage {
                    input: self.input,
                    ..Usage::default()
                };
                StreamEvent::Done(Box::new(Finish::done(StopReason::Stop, usage)))
            }
            End::Cut(error) | End::Failed(error) => StreamEvent::failure(error),
        });
    }
}

/// Bytes and waits: `("text", seconds before it)`; `None` means never.
type Script = Vec<(Option<u64>, &'static str)>;

async fn pause(seconds: Option<u64>) {
    match seconds {
        Some(seconds) => {
            let nothing = std::future::pending::<()>();
            let _ = tokio::time::timeout(Duration::from_secs(seconds), nothing).await;
        }
        None => std::future::pending().await,
    }
}

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Case {
    status: u16,
    headers_after: Option<u64>,
    body: Script,
    limits: Limits,
    input: u64,
    abort: AbortSignal,
    closed: Arc<AtomicBool>,
}

fn case(headers_after: Option<u64>, body: Script) -> Case {
    let limits = Limits {
        total: None,
        ..Limits::open(false)
    };
    Case {
        status: 200,
        headers_after,
        body,
        limits,
        input: 0,
        abort: AbortSignal::new(),
        closed: Arc::default(),
    }
}

impl Case {
    fn stream(self) -> EventStream {
        let guard = Dropped(self.closed);
        let body = stream::iter(self.body).then(|(wait, text)| async move {
            pause(wait).await;
            if text == "cut" {
                return Err(StreamError::new(StreamErrorKind::Incomplete, "cut off"));
            }
            Ok(Bytes::from_static(text.as_bytes()))
        });
        let body = body.map(move |part| {
            let _alive = &guard;
            part
        });
        let (head, status, body) = (self.headers_after, self.status, body.boxed());
        let send = async move {
            pause(head).await;
            Ok(Answer {
                status,
                headers: HeaderMap::new(),
                body,
            })
        };
        drive(Exchange {
            send: Box::pin(send),
            url: Url::parse("http://h/v1").unwrap(),
            limits: self.limits,
            abort: self.abort,
            context: Context {
                redactor: Redactor::default(),
                clock: Arc::new(|| 0),
            },
            reader: Box::new(Lines {
                output: false,
                input: self.input,
            }),
            asked: Asked {
                window: 100,
                other_form: Box::new(|switches| switches.last().copied()),
            },
        })
    }
}

fn shown(events: &[StreamEvent]) -> String {
    let one = |event: &StreamEvent| match event {
        StreamEvent::Start => "start".to_owned(),
        StreamEvent::TextStart { .. } => "[".to_owned(),
        StreamEvent::TextDelta { delta, .. } => delta.clone(),
        StreamEvent::TextEnd { .. } => "]".to_owned(),
        StreamEvent::Done(_) => "done".to_owned(),
        StreamEvent::Failed(finish) => finish
            .error
            .as_ref()
            .map_or_else(String::new, |e| e.message.clone()),
        other => format!("{other:?}"),
    };
    events.iter().map(one).collect::<Vec<_>>().join(" ")
}

async fn check(case: Case, expected: &str) {
    let closed = Arc::clone(&case.closed);
    let events: Vec<StreamEvent> = case.stream().collect().await;
    assert_eq!(shown(&events), expected);
    assert!(closed.load(Ordering::SeqCst), "the connection stays open");
}

#[tokio::test(start_paused = true)]
async fn a_whole_response() {
    check(
        case(
            Some(0),
            vec![(Some(0), "a"), (Some(1), "b"), (Some(0), "end")],
        ),
        "start [ a b ] done",
    )
    .await;
    check(
        case(Some(0), vec![(Some(0), "a"), (Some(0), "cut")]),
        "start [ a ] cut off",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_local_model_may_take_its_time() {
    let limits = Limits::open(true);
    let body = || vec![(Some(4 * 60), "a"), (Some(20 * 60), "b"), (Some(0), "end")];
    check(
        Case {
            limits,
            ..case(Some(11 * 60), body())
        },
        "start [ a b ] done",
    )
    .await;
    let text = "timed out: no output from the model within 600 s (setting `provider.firstOutputTimeoutMs`)";
    check(case(Some(11 * 60), body()), text).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_headers_then_nothing() {
    let text = "start timed out: no output from the model within 600 s (setting `provider.firstOutputTimeoutMs`)";
    check(case(Some(0), vec![(None, "")]), text).await;
}

#[tokio::test(start_paused = true)]
async fn comments_are_alive_but_are_no_output() {
    let comments = || vec![(Some(200), ":"); 10];
    let text = "start timed out: no output from the model within 600 s (setting `provider.firstOutputTimeoutMs`)";
    check(case(Some(0), comments()), text).await;
    let mut after_output = vec![(Some(0), "a")];
    after_output.extend(comments());
    after_output.push((Some(0), "end"));
    check(case(Some(0), after_output.clone()), "start [ a ] done").await;
    // Unless keep-alive does not count.
    let limits = Limits {
        keepalive_counts: false,
        ..Limits::open(false)
    };
    let text = "start [ a ] timed out: nothing more from the model within 300 s (setting `provider.idleTimeoutMs`)";
    check(
        Case {
            limits,
            ..case(Some(0), after_output)
        },
        text,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_gap_and_the_whole_request_have_their_own_limits() {
    let text = "start [ a ] timed out: nothing more from the model within 300 s (setting `provider.idleTimeoutMs`)";
    check(case(Some(0), vec![(Some(0), "a"), (None, "")]), text).await;
    let limits = Limits {
        total: Some(Duration::from_secs(60)),
        ..Limits::open(false)
    };
    let text = "start [ a b ] timed out: the response was not complete within 60 s (setting `provider.totalTimeoutMs`)";
    check(
        Case {
            limits,
            ..case(
                Some(0),
                vec![(Some(20), "a"), (Some(20), "b"), (Some(30), "c")],
            )
        },
        text,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_limits_nothing_fires() {
    let limits = Limits {
        first_output: None,
        idle: None,
        ..Limits::open(true)
    };
    let day = Some(24 * 3600);
    check(
        Case {
            limits,
            ..case(day, vec![(day, "a"), (day, "b"), (Some(0), "end")])
        },
        "start [ a b ] done",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_an_ended_response_open_is_left() {
    let began = Instant::now();
    check(
        case(Some(0), vec![(Some(0), "a"), (Some(0), "end"), (None, "")]),
        "start [ a ] done",
    )
    .await;
    assert!(began.elapsed() <= Duration::from_secs(1));
    // A finish reason without an end marker waits a little for usage.
    let text = "start [ a ] timed out: nothing more from the model within 10 s (setting `provider.idleTimeoutMs`)";
    check(
        case(Some(0), vec![(Some(0), "a"), (Some(0), "fin"), (None, "")]),
        text,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_too_large() {
    let limits = Limits {
        max_response_bytes: 3,
        ..Limits::open(true)
    };
    let body = vec![(Some(0), "ab"), (Some(0), "cd"), (Some(0), "end")];
    check(
        Case {
            limits,
            ..case(Some(0), body)
        },
        "start [ ab ] the response is larger than 3 bytes",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn abort_before_the_first_poll() {
    let case = case(Some(0), vec![]);
    case.abort.cancel();
    check(case, "Request was aborted").await;
}

#[tokio::test(start_paused = true)]
async fn abort_while_waiting_for_headers_and_in_the_stream() {
    for (head, body, expected) in [
        (None, vec![], "Request was aborted"),
        (Some(0), vec![(None, "")], "start Request was aborted"),
        (
            Some(0),
            vec![(Some(0), "a"), (None, "")],
            "start [ a ] Request was aborted",
        ),
    ] {
        let case = case(head, body);
        let abort = case.abort.clone();
        let trigger = async {
            pause(Some(5)).await;
            abort.cancel();
        };
        tokio::join!(check(case, expected), trigger);
    }
}

#[tokio::test(start_paused = true)]
async fn abort_drops_what_has_not_been_delivered_and_closes_what_has_been_opened() {
    // How many events are taken before the abort, and what follows it.
    let rows = [
        (1, "Request was aborted"),
        (2, "] Request was aborted"),
        (3, "] Request was aborted"),
        (4, "] Request was aborted"),
        (5, "Request was aborted"),
        (6, ""),
    ];
    for (taken, rest) in rows {
        let case = case(
            Some(0),
            vec![(Some(0), "a"), (Some(0), "b"), (Some(0), "end")],
        );
        let abort = case.abort.clone();
        let mut events = case.stream();
        for _ in 0..taken {
            events.next().await.unwrap();
        }
        abort.cancel();
        let left: Vec<StreamEvent> = events.collect().await;
        assert_eq!(shown(&left), rest, "after {taken}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_closes_the_connection() {
    let case = case(Some(0), vec![(Some(0), "a"), (None, "")]);
    let closed = Arc::clone(&case.closed);
    let mut events = case.stream();
    events.next().await.unwrap();
    drop(events);
    assert!(closed.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn the_body_of_an_error_is_not_waited_for_long() {
    let began = Instant::now();
    let body = vec![(Some(0), "half a "), (Some(0), "reason"), (None, "")];
    check(
        Case {
            status: 503,
            ..case(Some(0), body)
        },
        "503 half a reason",
    )
    .await;
    assert!(began.elapsed() <= Duration::from_secs(11));
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_ends_the_body_of_an_error_is_named() {
    let seconds = |n| Some(Duration::from_secs(n));
    let rows = [
        (
            seconds(2),
            None,
            "nothing more from the model within 2 s (setting `provider.idleTimeoutMs`)",
        ),
        (
            None,
            seconds(3),
            "the response was not complete within 3 s (setting `provider.totalTimeoutMs`)",
        ),
    ];
    for (idle, total, named) in rows {
        let mut case = case(Some(0), vec![(Some(0), "half a reason"), (None, "")]);
        case.status = 503;
        case.limits = Limits {
            idle,
            total,
            ..case.limits
        };
        let text = format!("503 half a reason (more of it was awaited; timed out: {named})");
        check(case, &text).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_slow_consumer_is_no_silence_of_the_server() {
    let case = case(
        Some(0),
        vec![(Some(0), "a"), (Some(200), "b"), (Some(0), "end")],
    );
    let mut events = case.stream();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        let slow = matches!(event, StreamEvent::TextDelta { .. });
        seen.push(event);
        if slow {
            pause(Some(250)).await;
        }
    }
    assert_eq!(shown(&seen), "start [ a b ] done");
}

#[tokio::test(start_paused = true)]
async fn a_refused_form_comes_back_with_another_one() {
    let refused = |status, body: &'static str| Case {
        status,
        ..case(Some(0), vec![(Some(0), body)])
    };
    let store = r#"{"error":{"message":"Unsupported parameter: 'store'"}}"#;
    let rows = [
        (refused(400, store), Some(FormSwitch::NoStore)),
        (refused(503, store), None),
        (
            refused(400, r#"{"error":{"message":"invalid message content"}}"#),
            None,
        ),
    ];
    for (case, switch) in rows {
        let events: Vec<StreamEvent> = case.stream().collect().await;
        let [StreamEvent::Failed(finish)] = events.as_slice() else {
            panic!("{events:?}")
        };
        let error = finish.error.as_ref().unwrap();
        assert_eq!(error.alternative, switch, "{error}");
        let refused = error.kind == StreamErrorKind::FormRefused;
        assert_eq!(refused, switch.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn an_overflow_that_no_server_reports() {
    for (input, overflow) in [(99, false), (101, true)] {
        let mut case = case(Some(0), vec![(Some(0), "a"), (Some(0), "end")]);
        case.input = input;
        let events: Vec<StreamEvent> = case.stream().collect().await;
        let Some(StreamEvent::Done(finish)) = events.last() else {
            panic!("{events:?}")
        };
        assert_eq!(
            finish.overflow, overflow,
            "{input} tokens in a window of 100"
        );
    }
}
