//! What a session costs: appending a line, opening a large file, and its context.
//!
//! The large file has 50,000 entries and 100 MB: turns of a user message, an assistant
//! message with a call, its result with most of the bytes, and an answer; near the end
//! stands a compaction.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use fluzo_llm::Message;
use fluzo_session::jsonl::locate;
use fluzo_session::{Header, JsonlStore, MemoryStore, Session, SessionStore};
use fluzo_stdx::ids::RandomIds;
use fluzo_stdx::time::iso_utc;
use tempfile::TempDir;

const ENTRIES: usize = 50_000;
const BYTES: usize = 100_000_000;
const START: i64 = 1_790_000_000_000;

fn main() {
    divan::main();
    if let Some(folder) = FOLDER.get() {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[divan::bench]
fn append_to_a_file(bencher: Bencher) {
    let folder = TempDir::new().unwrap();
    let store =
        JsonlStore::create_in(folder.path(), header(), Vec::new(), Arc::new(RandomIds)).unwrap();
    append(bencher, Arc::new(store));
}

#[divan::bench]
fn append_to_memory(bencher: Bencher) {
    append(bencher, Arc::new(MemoryStore::new(header())));
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn open_100_mb(bencher: Bencher) {
    let path = large();
    let size = path.metadata().unwrap().len();
    bencher
        .counter(BytesCount::new(size))
        .bench(|| JsonlStore::open(path, Arc::new(RandomIds)).unwrap());
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn context_behind_a_compaction(bencher: Bencher) {
    let store = JsonlStore::open(large(), Arc::new(RandomIds)).unwrap();
    let session = Session::new(Arc::new(store), Arc::new(RandomIds));
    bencher.bench(|| session.context().unwrap());
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn list_a_folder_with_100_mb(bencher: Bencher) {
    let folder = large().parent().unwrap();
    bencher.bench(|| locate::list(folder).unwrap());
}

fn append(bencher: Bencher, store: Arc<dyn SessionStore>) {
    let session = Session::new(store, Arc::new(RandomIds));
    let message = Arc::new(Message::user("x".repeat(1000), START));
    session.append_message(Arc::clone(&message), START).unwrap();
    bencher
        .counter(ItemsCount::new(1_usize))
        .bench(|| session.append_message(Arc::clone(&message), START).unwrap());
}

fn header() -> Header {
    Header::new(
        "01a230c2-0000-7000-8000-000000000001",
        iso_utc(START),
        "/work",
    )
}

/// The folder of the large file.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// The large file; made once, removed at the end.
fn large() -> &'static Path {
    static LARGE: OnceLock<PathBuf> = OnceLock::new();
    LARGE.get_or_init(|| {
        let path = FOLDER
            .get_or_init(|| TempDir::new().unwrap().keep())
            .join("large.jsonl");
        let mut out = Lines::new(BufWriter::new(File::create(&path).unwrap()));
        out.write_session();
        path
    })
}

/// Writes the lines of the large file.
struct Lines {
    out: BufWriter<File>,
    count: usize,
    seed: u64,
}

impl Lines {
    fn new(out: BufWriter<File>) -> Self {
        Self {
            out,
            count: 0,
            seed: 7,
        }
    }

    fn write_session(&mut self) {
        writeln!(self.out, "{}", header().to_line().unwrap()).unwrap();
        let big = BYTES * 4 / ENTRIES - 1900;
        let mut compacted = false;
        while self.count < ENTRIES {
            let text = self.text(120);
            let first = self.entry(&format!(
                r#""type":"message","message":{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"timestamp":{START}}}"#
            ));
            let (call, text) = (self.count, self.text(150));
            self.assistant(&format!(
                r#"{{"type":"text","text":"{text}"}},{{"type":"toolCall","id":"call_{call}","name":"bash","arguments":{{"command":"grep -rn fn src"}}}}"#
            ), "toolUse");
            let text = self.text(big);
            self.entry(&format!(
                r#""type":"message","message":{{"role":"toolResult","toolCallId":"call_{call}","toolName":"bash","content":[{{"type":"text","text":"{text}"}}],"isError":false,"timestamp":{START}}}"#
            ));
            let text = self.text(300);
            self.assistant(&format!(r#"{{"type":"text","text":"{text}"}}"#), "stop");
            if !compacted && self.count + 100 >= ENTRIES {
                compacted = true;
                self.entry(&format!(
                    r#""type":"compaction","summary":"so far","firstKeptEntryId":"{first}","tokensBefore":150000"#
                ));
            }
        }
        self.out.flush().unwrap();
    }

    fn assistant(&mut self, content: &str, stop: &str) {
        let cost = r#"{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}"#;
        self.entry(&format!(
            r#""type":"message","message":{{"role":"assistant","content":[{content}],"api":"a","provider":"sim","model":"sim","usage":{{"input":1000,"output":10,"cacheRead":0,"cacheWrite":0,"totalTokens":1010,"cost":{cost}}},"stopReason":"{stop}","timestamp":{START}}}"#
        ));
    }

    /// Writes an entry behind the one before and returns its id.
    fn entry(&mut self, fields: &str) -> String {
        let id = |count: usize| format!("{:08x}", 0x1000_0000 + count);
        let parent = match self.count {
            0 => "null".to_owned(),
            count => format!("\"{}\"", id(count - 1)),
        };
        let own = id(self.count);
        let (kind, rest) = fields.split_once(',').unwrap();
        let time = iso_utc(START + i64::try_from(self.count).unwrap() * 1500);
        writeln!(
            self.out,
            r#"{{{kind},"id":"{own}","parentId":{parent},"timestamp":"{time}",{rest}}}"#
        )
        .unwrap();
        self.count += 1;
        own
    }

    /// About `len` bytes of words as they stand in JSON, with escapes.
    fn text(&mut self, len: usize) -> String {
        const WORDS: [&str; 16] = [
            "fn",
            "let",
            "mut",
            "struct",
            "impl",
            "match",
            "error",
            "warning",
            "target",
            "src",
            "result",
            "option",
            "\\\"quoted\\\"",
            "path/to/file.rs",
            "12345",
            "\\n",
        ];
        let mut text = String::with_capacity(len + 16);
        while text.len() < len {
            self.seed = self
                .seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            text.push_str(WORDS[usize::try_from(self.seed >> 60).unwrap()]);
            text.push(' ');
        }
        text
    }
}
