//! A journal in memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluzo_agent::{AppendError, JournalEffect, Record};
use fluzo_llm::{BoxFuture, Message};

/// Keeps what it is given, until it is told to fail.
#[derive(Debug, Default)]
pub struct MemoryJournal(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    records: Vec<Record>,
    attempts: usize,
    fails: Option<Fails>,
}

type Fails = Box<dyn Fn(usize, &Record) -> bool + Send>;

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fails append number `at`, counted from zero.
    pub fn fail_at(&self, at: usize) {
        self.fail_when(move |number, _| number == at);
    }

    /// Fails every append for which `fails` says so; it gets the number of the append and the record.
    pub fn fail_when(&self, fails: impl Fn(usize, &Record) -> bool + Send + 'static) {
        self.kept().fails = Some(Box::new(fails));
    }

    /// What was stored.
    pub fn records(&self) -> Vec<Record> {
        self.kept().records.clone()
    }

    /// The messages that were stored.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        let message = |record: &Record| match record {
            Record::Message(message) => Some(Arc::clone(message)),
            _ => None,
        };
        self.kept().records.iter().filter_map(message).collect()
    }

    /// How many appends were asked for, failed ones included.
    pub fn attempts(&self) -> usize {
        self.kept().attempts
    }

    fn append_now(&self, record: Record) -> Result<(), AppendError> {
        let mut kept = self.kept();
        let number = kept.attempts;
        kept.attempts += 1;
        if kept
            .fails
            .as_ref()
            .is_some_and(|fails| fails(number, &record))
        {
            return Err(AppendError(format!("append {number} was told to fail")));
        }
        kept.records.push(record);
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JournalEffect for MemoryJournal {
    fn append<'a>(&'a self, record: Record) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move { self.append_now(record) })
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.records).finish()
    }
}
