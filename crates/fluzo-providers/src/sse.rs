//! A server-sent-events parser for bytes that arrive in any pieces.
//!
//! Follows the event-stream format: lines end in LF, CRLF or CR; one leading byte-order
//! mark is skipped; comments and unknown fields are ignored; an event without data is not
//! reported; invalid UTF-8 becomes U+FFFD. Time is linear in the bytes fed, and memory is
//! bounded by the event limit.

use memchr::memchr2;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Buffers above this are given back after the event that needed them.
const KEPT_CAPACITY: usize = 64 * 1024;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The event's type; empty when the server named none.
    pub event: &'a str,
    /// Its data lines, joined by LF.
    pub data: &'a str,
}

/// An event or a line is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {limit} bytes")]
pub struct EventTooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

/// The parser. Its state is what has been read of the event under way.
#[derive(Debug)]
pub struct SseParser {
    limit: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    event: Vec<u8>,
    has_data: bool,
    first_line: bool,
    after_cr: bool,
}

impl SseParser {
    /// A parser that accepts events of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            event: Vec::new(),
            has_data: false,
            first_line: true,
            after_cr: false,
        }
    }

    /// Reads `bytes` and hands each event that they complete to `on_event`.
    ///
    /// # Errors
    ///
    /// When an event exceeds the limit, or the first error of `on_event`. The parser
    /// must not be fed again after that.
    pub fn feed<E, F>(&mut self, mut bytes: &[u8], mut on_event: F) -> Result<(), E>
    where
        E: From<EventTooLarge>,
        F: FnMut(SseEvent<'_>) -> Result<(), E>,
    {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                self.keep(bytes)?;
                break;
            };
            self.after_cr = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.check_line(end)?;
                self.take_line(&bytes[..end], &mut on_event)?;
            } else {
                self.keep(&bytes[..end])?;
                let mut line = std::mem::take(&mut self.line);
                self.take_line(&line, &mut on_event)?;
                line.clear();
                line.shrink_to(KEPT_CAPACITY);
                self.line = line;
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// The data of an event that the end of the stream left without its blank line.
    ///
    /// The format says to drop it; some servers forget the last blank line, so the caller
    /// decides by looking whether it is whole.
    pub fn trailing(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line::<EventTooLarge, _>(&line, &mut |_| Ok(()))
                .ok()?;
        }
        let whole = std::mem::take(&mut self.has_data);
        whole.then(|| String::from_utf8_lossy(&std::mem::take(&mut self.data)).into_owned())
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), EventTooLarge> {
        self.check_line(self.line.len() + part.len())?;
        self.line.extend_from_slice(part);
        Ok(())
    }

    /// A line counts as it is long, in however many pieces it came.
    fn check_line(&self, length: usize) -> Result<(), EventTooLarge> {
        if length > self.limit {
            return Err(EventTooLarge { limit: self.limit });
        }
        Ok(())
    }

    fn take_line<E, F>(&mut self, mut line: &[u8], on_event: &mut F) -> Result<(), E>
    where
        E: From<EventTooLarge>,
        F: FnMut(SseEvent<'_>) -> Result<(), E>,
    {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(on_event);
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(0) => return Ok(()),
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.add_data(value)?,
            b"event" => {
                self.event.clear();
                self.event.extend_from_slice(value);
            }
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, value: &[u8]) -> Result<(), EventTooLarge> {
        if self.data.len() + value.len() + 1 > self.limit {
            return Err(EventTooLarge { limit: self.limit });
        }
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn dispatch<E, F>(&mut self, on_event: &mut F) -> Result<(), E>
    where
        F: FnMut(SseEvent<'_>) -> Result<(), E>,
    {
        let result = if std::mem::take(&mut self.has_data) {
            let event = String::from_utf8_lossy(&self.event);
            let data = String::from_utf8_lossy(&self.data);
            on_event(SseEvent {
                event: &event,
                data: &data,
            })
        } else {
            Ok(())
        };
        self.event.clear();
        self.data.clear();
        self.data.shrink_to(KEPT_CAPACITY);
        result
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = SseParser::new(1 << 20);
        let mut out = Vec::new();
        for chunk in chunks {
            let fed: Result<(), EventTooLarge> = parser.feed(chunk, |e| {
                out.push((e.event.to_owned(), e.data.to_owned()));
                Ok(())
            });
            fed.unwrap();
        }
        out
    }

    fn data(input: &[u8]) -> Vec<String> {
        parse(&[input]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn the_format() {
        let rows: &[(&[u8], &[&str])] = &[
            (b"data: a\n\n", &["a"]),
            (b"data:a\n\ndata:  b\n\n", &["a", " b"]),
            (b"data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
            (b"data: a\r\rdata: b\r\r", &["a", "b"]),
            (b"data: a\r\n\ndata: b\n\r\n", &["a", "b"]),
            (b"data: a\ndata: b\n\n", &["a\nb"]),
            (b"data\ndata\n\n", &["\n"]),
            (b"data\n\n", &[""]),
            (b"data:\n\n", &[""]),
            (b"\xEF\xBB\xBFdata: a\n\n", &["a"]),
            (b"data: a\n\n\xEF\xBB\xBFdata: b\n\n", &["a"]),
            (b": c\n\n:\n: ping\n\ndata: a\n\n", &["a"]),
            (
                b"id: 7\ndata: a\n\n: ping\n\ndata: [DONE]\n\n",
                &["a", "[DONE]"],
            ),
            (b"event: x\n\n", &[]),
            (b"retry: 3\nfoo: bar\ndata: a\n\n", &["a"]),
            (b"data: \xff\xfe!\n\n", &["\u{FFFD}\u{FFFD}!"]),
            (b"data: cut off", &[]),
            (b"data: cut off\n", &[]),
            (b"\n\n\n", &[]),
        ];
        for (input, expected) in rows {
            assert_eq!(
                data(input),
                *expected,
                "{:?}",
                String::from_utf8_lossy(input)
            );
        }
    }

    #[test]
    fn the_type_of_an_event_is_reported_and_forgotten() {
        let events = parse(&[b"event: error\ndata: a\n\ndata: b\n\n"]);
        assert_eq!(
            events,
            [("error".into(), "a".into()), (String::new(), "b".into())]
        );
    }

    #[test]
    fn a_comment_between_events_is_no_event() {
        assert_eq!(data(b"id: 7\ndata: {\"a\":1}\n\n: ping\n\n").len(), 1);
    }

    #[test]
    fn every_split_gives_the_same_events() {
        let input =
            "\u{FEFF}: c\r\nevent: e\r\ndata: 你🌍\r\ndata: é\r\n\r\ndata: b\n\n".as_bytes();
        let whole = parse(&[input]);
        assert_eq!(whole[0].1, "你🌍\né");
        for at in 0..=input.len() {
            assert_eq!(parse(&[&input[..at], &input[at..]]), whole, "split at {at}");
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(parse(&bytes), whole);
    }

    #[test]
    fn an_endless_line_is_an_error_and_is_not_kept() {
        let mut parser = SseParser::new(1000);
        let feed = |parser: &mut SseParser, bytes: &[u8]| -> Result<(), EventTooLarge> {
            parser.feed(bytes, |_| Ok(()))
        };
        feed(&mut parser, b"data: ").unwrap();
        let mut fed = 0;
        let error = loop {
            match feed(&mut parser, &[b'x'; 64]) {
                Ok(()) => fed += 64,
                Err(error) => break error,
            }
        };
        assert!(fed <= 1000 && parser.line.capacity() <= 2048);
        assert_eq!(error.to_string(), "an event is larger than 1000 bytes");
    }

    #[test]
    fn many_data_lines_count_as_one_event() {
        let mut parser = SseParser::new(100);
        let fed: Result<(), EventTooLarge> =
            parser.feed(&b"data: 0123456789\n".repeat(20), |_| Ok(()));
        assert!(fed.is_err());
    }

    #[test]
    fn what_the_end_of_the_stream_leaves() {
        let rows: &[(&[u8], Option<&str>)] = &[
            (b"data: a\n\n", None),
            (b"data: a", Some("a")),
            (b"data: a\n", Some("a")),
            (b"data: a\n\n: c", None),
            (b"data: a\ndata: b", Some("a\nb")),
        ];
        for (input, expected) in rows {
            let mut parser = SseParser::new(100);
            let fed: Result<(), EventTooLarge> = parser.feed(input, |_| Ok(()));
            fed.unwrap();
            assert_eq!(parser.trailing().as_deref(), *expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn chunking_never_matters(
            input in proptest::collection::vec(prop_oneof![
                Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'd'), Just(b' '), any::<u8>()
            ], 0..200),
            at in 0usize..200,
        ) {
            let mut text = b"data: x\n".to_vec();
            text.extend_from_slice(&input);
            let at = at.min(text.len());
            prop_assert_eq!(parse(&[&text[..at], &text[at..]]), parse(&[&text]));
        }
    }
}
