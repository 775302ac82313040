//! The state of a session: what is stored, what the model gets to see, what is chosen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluzo_agent::{RunContext, TimeEffect};
use fluzo_llm::{Message, Model, ThinkingLevel};
use fluzo_protocol::Event;
use fluzo_session::{Session, StoreError};

use crate::broadcast::Broadcast;
use crate::choice::Choice;
use crate::live::Live;
use crate::{OpenedSession, interrupted};

/// Told of the model in use.
type OnModel = Arc<dyn Fn(&Model) + Send + Sync>;

/// What the parts of a session share.
pub(crate) struct Core {
    pub(crate) session: Arc<Session>,
    pub(crate) time: Arc<dyn TimeEffect>,
    pub(crate) broadcast: Arc<Broadcast>,
    live: Arc<Live>,
    on_model: OnModel,
    choice: Mutex<Choice>,
    /// Every message that is stored, the running run's included.
    context: Arc<Mutex<Vec<Arc<Message>>>>,
    /// What the session says of model and level.
    stored: Mutex<Stored>,
    began: Mutex<bool>,
    /// The system prompt of the present run, when a hook has given it one.
    run_prompt: Mutex<Option<Arc<str>>>,
    /// What went wrong beside a command that was carried out.
    remarks: Mutex<Vec<String>>,
}

#[derive(Default)]
struct Stored {
    model: Option<(String, String)>,
    thinking: Option<ThinkingLevel>,
}

impl Core {
    pub(crate) fn new(
        opened: OpenedSession,
        choice: Choice,
        time: Arc<dyn TimeEffect>,
        broadcast: Arc<Broadcast>,
        context: Arc<Mutex<Vec<Arc<Message>>>>,
        (live, on_model): (Arc<Live>, OnModel),
    ) -> Self {
        on_model(&choice.model);
        let stored = Stored {
            model: opened.model,
            thinking: opened.thinking,
        };
        *lock(&context) = opened.messages;
        Self {
            session: opened.session,
            time,
            broadcast,
            live,
            on_model,
            choice: Mutex::new(choice),
            context,
            stored: Mutex::new(stored),
            began: Mutex::default(),
            run_prompt: Mutex::default(),
            remarks: Mutex::default(),
        }
    }

    /// Something the user should know that is no reason to refuse a command.
    pub(crate) fn remark(&self, text: String) {
        lock(&self.remarks).push(text);
    }

    /// The remarks that were not taken yet.
    pub(crate) fn take_remarks(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.remarks))
    }

    pub(crate) fn now(&self) -> i64 {
        self.time.now_ms()
    }

    pub(crate) fn context(&self) -> MutexGuard<'_, Vec<Arc<Message>>> {
        lock(&self.context)
    }

    pub(crate) fn choice(&self) -> MutexGuard<'_, Choice> {
        lock(&self.choice)
    }

    /// Adds a message that no run made, to session and context.
    pub(crate) fn add(&self, message: Arc<Message>) -> Result<(), StoreError> {
        self.session
            .append_message(Arc::clone(&message), self.now())?;
        self.context().push(message);
        Ok(())
    }

    /// Reads the context again: after a compaction or a move in the tree.
    pub(crate) fn rebuild(&self) -> Result<(), StoreError> {
        let context = self.session.context()?;
        let mut stored = lock(&self.stored);
        stored.model = context.model;
        stored.thinking = ThinkingLevel::parse(&context.thinking_level);
        *self.context() = context.messages;
        Ok(())
    }

    /// What the session stores before anything else: that this process writes it, and
    /// results for calls that a crash left without one.
    pub(crate) fn begin(&self) -> Result<(), StoreError> {
        let mut began = lock(&self.began);
        if *began {
            return Ok(());
        }
        // A call that another process may still be running must not be taken for interrupted.
        if self.session.claim(self.now())? {
            self.rebuild()?;
            *lock(&self.stored) = Stored::default();
        }
        let added = interrupted::settle(&self.session, self.now())?;
        self.context().extend(added);
        *began = true;
        drop(began);
        self.store_choice()
    }

    /// Stores model and level where the session says something else. Before the session has
    /// begun nothing is stored; it is made up for then.
    pub(crate) fn store_choice(&self) -> Result<(), StoreError> {
        if !*lock(&self.began) {
            return Ok(());
        }
        let (model, level) = {
            let choice = self.choice();
            let model = (choice.model.provider.clone(), choice.model.id.clone());
            (model, choice.thinking)
        };
        let mut stored = lock(&self.stored);
        if stored.model.as_ref() != Some(&model) {
            self.session
                .append_model_change(&model.0, &model.1, self.now())?;
            stored.model = Some(model);
        }
        if stored.thinking != Some(level) {
            self.session
                .append_thinking_level_change(level.as_str(), self.now())?;
            stored.thinking = Some(level);
        }
        Ok(())
    }

    /// Makes `change` to the choices, stores it, tells a run that is going on, and shows what
    /// has changed.
    ///
    /// # Errors
    ///
    /// When it cannot be stored. It counts all the same.
    pub(crate) async fn choose<R>(
        &self,
        change: impl FnOnce(&mut Choice) -> R,
    ) -> Result<R, StoreError> {
        let (result, new_model, new_level) = {
            let mut choice = self.choice();
            let (model, level) = (Arc::clone(&choice.model), choice.thinking);
            let result = change(&mut choice);
            self.live.change(|next| {
                next.model = Some(Arc::clone(&choice.model));
                next.thinking = Some(choice.thinking);
                next.tools = Some(choice.tools.clone());
                next.system_prompt = Some(self.system_prompt(&choice));
            });
            let new_model = !Arc::ptr_eq(&model, &choice.model);
            let new_level = (level != choice.thinking).then_some(choice.thinking);
            (
                result,
                new_model.then(|| Arc::clone(&choice.model)),
                new_level,
            )
        };
        if let Some(model) = new_model {
            (self.on_model)(&model);
        }
        let stored = self.store_choice();
        if let Some(level) = new_level {
            self.broadcast
                .show(Event::ThinkingLevelChanged { level })
                .await;
        }
        stored.map(|()| result)
    }

    /// Sets the system prompt of the present run, or takes it away again.
    pub(crate) fn set_run_prompt(&self, prompt: Option<Arc<str>>) {
        *lock(&self.run_prompt) = prompt;
    }

    /// That of the run, if it has one of its own.
    fn system_prompt(&self, choice: &Choice) -> Arc<str> {
        let own = lock(&self.run_prompt).clone();
        own.unwrap_or_else(|| Arc::clone(&choice.system_prompt))
    }

    /// The context of a run as things stand, for a run that begins: no change up to here has
    /// to be told to it.
    pub(crate) fn run_context(&self) -> RunContext {
        self.set_run_prompt(None);
        self.live.take();
        self.view()
    }

    /// The context of a run as things stand.
    pub(crate) fn view(&self) -> RunContext {
        let choice = self.choice();
        RunContext {
            system_prompt: Arc::clone(&choice.system_prompt),
            model: Arc::clone(&choice.model),
            thinking: choice.thinking,
            tools: choice.tools.clone(),
            messages: self.context().clone(),
            session_id: Some(self.session.header().id),
        }
    }

    /// Brings everything but the messages of `context` up to date.
    pub(crate) fn refresh(&self, context: &mut RunContext) {
        let choice = self.choice();
        self.live.take();
        choice.apply(context);
        context.system_prompt = self.system_prompt(&choice);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is set in one assignment each; a poisoned one is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
