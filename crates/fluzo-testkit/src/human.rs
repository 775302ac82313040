//! A person who answers by script.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fluzo_agent::{Answer, HumanEffect, Question};
use fluzo_llm::BoxFuture;

/// Gives its answers one after the other.
#[derive(Debug, Default)]
pub struct ScriptedHuman(Mutex<Script>);

#[derive(Debug, Default)]
struct Script {
    answers: VecDeque<Answer>,
    questions: Vec<Question>,
    silent: bool,
}

impl ScriptedHuman {
    /// A person with these answers.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let script = Script {
            answers: answers.into_iter().collect(),
            ..Script::default()
        };
        Self(Mutex::new(script))
    }

    /// A person who never answers.
    pub fn silent() -> Self {
        let script = Script {
            silent: true,
            ..Script::default()
        };
        Self(Mutex::new(script))
    }

    /// What was asked so far.
    pub fn questions(&self) -> Vec<Question> {
        self.script().questions.clone()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HumanEffect for ScriptedHuman {
    fn ask<'a>(&'a self, question: Question) -> BoxFuture<'a, Answer> {
        let mut script = self.script();
        script.questions.push(question.clone());
        if script.silent {
            return Box::pin(std::future::pending());
        }
        match script.answers.pop_front() {
            Some(answer) => Box::pin(std::future::ready(answer)),
            None => {
                drop(script);
                panic!("no answer is scripted for {question:?}")
            }
        }
    }
}
