//! What a command prints: a bounded tail for the model, counts of everything, and a file that
//! takes the whole once it is more than is shown.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use encoding_rs::{CoderResult, Decoder, UTF_8};
use fluzo_exec::{FileSystem, errno_text};
use fluzo_stdx::truncate::{TextLimits, Truncation, truncate_tail};

use crate::SpillPolicy;

/// Beginning of the file names of whole outputs.
const SPILL_PREFIX: &str = "pi-bash-";

/// Collects output as it comes. Memory is bounded by a small multiple of the byte limit.
pub(crate) struct Output {
    limits: TextLimits,
    decoder: Decoder,
    tail: String,
    totals: Totals,
    spill: Spill,
}

/// Output up to some moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The end of the output within the limits, with counts of the whole.
    pub(crate) truncation: Truncation,
    /// Bytes of the last line, its end left out.
    pub(crate) last_line: usize,
    /// Where the whole is.
    pub(crate) saved: Saved,
}

/// Where output beyond the limits is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Saved {
    /// Nowhere: it is within the limits, or dropped on purpose.
    Nowhere,
    /// All of it is in a file.
    Whole(PathBuf),
    /// Its first bytes are in a file.
    First(PathBuf, u64),
    /// No file could be made, for this reason.
    Failed(String),
}

impl Output {
    /// Nothing yet. The file is made by `fs`, and only when it is needed.
    pub(crate) fn new(limits: TextLimits, policy: &SpillPolicy, fs: &Arc<dyn FileSystem>) -> Self {
        let spill = match policy {
            SpillPolicy::Drop => Spill::Off,
            SpillPolicy::File { folder, max_bytes } => Spill::Waiting {
                head: Vec::new(),
                fs: Arc::clone(fs),
                folder: folder.clone(),
                max_bytes: *max_bytes,
            },
        };
        Self {
            limits,
            // A byte order mark stays in the text like any other character.
            decoder: UTF_8.new_decoder_without_bom_handling(),
            tail: String::new(),
            totals: Totals::default(),
            spill,
        }
    }

    /// Takes the next bytes; a character may be split between two calls.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.decode(chunk, false);
        self.spill.write(chunk, self.totals.exceed(self.limits));
    }

    /// Nothing more will come. A character that was never completed becomes U+FFFD.
    pub(crate) fn finish(&mut self) {
        self.decode(&[], true);
        self.spill.write(&[], self.totals.exceed(self.limits));
    }

    /// Sends the whole to the file even though it is within the limits.
    pub(crate) fn save_whole(&mut self) {
        self.spill.write(&[], true);
    }

    /// What there is now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        // Whatever was dropped from the front of the tail is beyond the limits by itself.
        let mut truncation = truncate_tail(&self.tail, self.limits);
        truncation.total_lines = self.totals.lines();
        truncation.total_bytes = self.totals.bytes;
        Snapshot {
            truncation,
            last_line: self.totals.last_line(),
            saved: self.spill.saved(),
        }
    }

    fn decode(&mut self, mut bytes: &[u8], last: bool) {
        let start = self.tail.len();
        loop {
            let room = self.decoder.max_utf8_buffer_length(bytes.len());
            self.tail.reserve(room.unwrap_or(bytes.len()));
            let (result, read, _) = self.decoder.decode_to_string(bytes, &mut self.tail, last);
            bytes = &bytes[read..];
            if matches!(result, CoderResult::InputEmpty) {
                break;
            }
        }
        self.totals.add(&self.tail[start..]);
        self.trim();
    }

    /// Drops the front of the tail now and then, so that each byte is moved at most once.
    fn trim(&mut self) {
        let keep = self.limits.max_bytes.saturating_mul(2).max(1024);
        if self.tail.len() > keep.saturating_mul(2) {
            let mut from = self.tail.len() - keep;
            while !self.tail.is_char_boundary(from) {
                from += 1;
            }
            self.tail.drain(..from);
        }
    }
}

/// Counts of everything that came.
#[derive(Debug, Default)]
struct Totals {
    bytes: usize,
    newlines: usize,
    last_line_start: usize,
    ended_line: bool,
}

impl Totals {
    fn add(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.ended_line {
            self.last_line_start = self.bytes;
        }
        let body = text.strip_suffix('\n');
        self.ended_line = body.is_some();
        if let Some(at) = body.unwrap_or(text).rfind('\n') {
            self.last_line_start = self.bytes + at + 1;
        }
        self.newlines += memchr::memchr_iter(b'\n', text.as_bytes()).count();
        self.bytes += text.len();
    }

    fn lines(&self) -> usize {
        self.newlines + usize::from(self.bytes > 0 && !self.ended_line)
    }

    fn last_line(&self) -> usize {
        self.bytes - self.last_line_start - usize::from(self.ended_line)
    }

    fn exceed(&self, limits: TextLimits) -> bool {
        self.bytes > limits.max_bytes || self.lines() > limits.max_lines
    }
}

/// The file of the whole output.
enum Spill {
    Off,
    /// All is still within the limits, and kept here.
    Waiting {
        head: Vec<u8>,
        fs: Arc<dyn FileSystem>,
        folder: PathBuf,
        max_bytes: u64,
    },
    Open {
        path: PathBuf,
        /// Gone once the file is full or cannot be written.
        writer: Option<Box<dyn Write + Send>>,
        written: u64,
        max_bytes: u64,
    },
    Failed(String),
}

impl Spill {
    fn write(&mut self, chunk: &[u8], needed: bool) {
        if let Self::Waiting { head, .. } = self {
            head.extend_from_slice(chunk);
            if needed {
                self.open();
            }
        } else {
            self.append(chunk);
        }
    }

    fn open(&mut self) {
        let Self::Waiting {
            head,
            fs,
            folder,
            max_bytes,
        } = std::mem::replace(self, Self::Off)
        else {
            return;
        };
        *self = match fs.create_spill(&folder, SPILL_PREFIX) {
            Ok(file) => Self::Open {
                path: file.path,
                writer: Some(file.writer),
                written: 0,
                max_bytes,
            },
            Err(error) => Self::Failed(errno_text(&error).to_owned()),
        };
        self.append(&head);
    }

    fn append(&mut self, chunk: &[u8]) {
        let Self::Open {
            writer,
            written,
            max_bytes,
            ..
        } = self
        else {
            return;
        };
        let Some(file) = writer else { return };
        let room = usize::try_from(*max_bytes - *written).unwrap_or(usize::MAX);
        let part = &chunk[..chunk.len().min(room)];
        match file.write_all(part) {
            Ok(()) => *written += part.len() as u64,
            Err(_) => *writer = None,
        }
        if part.len() < chunk.len() {
            *writer = None;
        }
    }

    fn saved(&self) -> Saved {
        match self {
            Self::Off | Self::Waiting { .. } => Saved::Nowhere,
            Self::Open {
                path,
                writer: Some(_),
                ..
            } => Saved::Whole(path.clone()),
            Self::Open { path, written, .. } => Saved::First(path.clone(), *written),
            Self::Failed(reason) => Saved::Failed(reason.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
