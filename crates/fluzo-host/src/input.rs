//! From what was typed to what the model gets: command of a hook, input hook, skill,
//! template, in this order.

use std::sync::Arc;

use fluzo_llm::message::CustomMessage;
use fluzo_llm::{Content, ImageContent, Message};
use fluzo_protocol::{Event, Prompt};
use serde_json::{Value, json};

use crate::hooks::{HookError, Input, InputAction};
use crate::session::Inner;

/// Why a message is refused that says nothing.
const EMPTY: &str = "the message is empty";

/// What a prompt has become.
pub(crate) enum Expanded {
    /// A hook has dealt with it.
    Handled,
    /// It goes to the model like this.
    Input(Input),
}

/// What is added to a run: messages, and a system prompt for it alone.
pub(crate) type Added = (Vec<Arc<Message>>, Option<Arc<str>>);

impl Inner {
    /// What `prompt` becomes. A command of a hook is carried out here.
    pub(crate) async fn expand(&self, prompt: Prompt) -> Expanded {
        let input = Input {
            text: prompt.text,
            images: prompt.images,
        };
        if prompt.literal {
            return Expanded::Input(input);
        }
        if let Some((name, arguments)) = self.hook_command(&input.text) {
            if let Err(error) = self.hooks.command(&name, &arguments).await {
                let path = format!("command:{name}");
                self.show_error(path, "command", error.message).await;
            }
            return Expanded::Handled;
        }
        let kept = input.clone();
        match self.told("input", self.hooks.input(input).await).await {
            Some(InputAction::Handled) => Expanded::Handled,
            Some(InputAction::Go(input)) => Expanded::Input(self.named(input).await),
            None => Expanded::Input(self.named(kept).await),
        }
    }

    /// What a message for a queue becomes. Commands of hooks cannot wait.
    pub(crate) async fn expand_queued(
        &self,
        text: String,
        images: Vec<ImageContent>,
    ) -> Result<Arc<Message>, String> {
        if let Some((name, _)) = self.hook_command(&text) {
            return Err(format!(
                "Extension command \"/{name}\" cannot be queued. Use prompt() or execute the command when not streaming."
            ));
        }
        let input = self.named(Input { text, images }).await;
        self.message(input).await
    }

    /// The message of `input`, with its images made ready.
    pub(crate) async fn message(&self, mut input: Input) -> Result<Arc<Message>, String> {
        if !input.images.is_empty() {
            let prepared = self.images.prepare(input.images).await?;
            input.images = prepared.images;
            for note in prepared.notes {
                if !input.text.is_empty() && !input.text.ends_with('\n') {
                    input.text.push('\n');
                }
                input.text.push_str(&note);
            }
        }
        user_message(&input.text, input.images, self.core.now())
    }

    /// The commands that a prompt may begin with, as `get_commands` shows them.
    pub(crate) fn prompt_commands(&self) -> Value {
        let hooks = self.hooks.commands().into_iter().map(|command| {
            json!({ "name": command.name, "description": command.description,
                "source": "extension", "sourceInfo": command.source })
        });
        let prompts = self.resources.templates.iter().map(|template| {
            json!({ "name": template.name, "description": template.description,
                "source": "prompt", "sourceInfo": template.source })
        });
        let skills = self.resources.skills.iter().map(|skill| {
            json!({ "name": format!("skill:{}", skill.name), "description": skill.description,
                "source": "skill", "sourceInfo": skill.source })
        });
        hooks.chain(prompts).chain(skills).collect()
    }

    /// What a hook adds to a run.
    pub(crate) async fn before_run(&self, prompt: &str, system_prompt: &str) -> Option<Added> {
        let added = self.hooks.before_run(prompt, system_prompt).await;
        let added = self.told("before_agent_start", added).await?;
        let message = |mut custom: CustomMessage| {
            custom.timestamp = self.core.now();
            Arc::new(Message::Custom(custom))
        };
        let messages = added.messages.into_iter().map(message).collect();
        Some((messages, added.system_prompt.map(Arc::from)))
    }

    /// The result of a hook; a failure is shown, and there is none then.
    pub(crate) async fn told<T>(&self, event: &str, result: Result<T, HookError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.show_error(error.path, event, error.message).await;
                None
            }
        }
    }

    async fn show_error(&self, path: String, event: &str, error: String) {
        let event = Event::ExtensionError {
            path,
            event: event.to_owned(),
            error,
        };
        self.core.broadcast.show(event).await;
    }

    /// Name and arguments, when `text` begins with a command of a hook.
    fn hook_command(&self, text: &str) -> Option<(String, String)> {
        let rest = text.strip_prefix('/')?;
        let (name, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
        let known = self.hooks.commands().iter().any(|c| c.name == name);
        known.then(|| (name.to_owned(), arguments.to_owned()))
    }

    /// `input` with the skill or the template that it names in place.
    async fn named(&self, mut input: Input) -> Input {
        if self.skill_commands {
            match self.resources.expand_skill(&input.text) {
                Ok(Some(text)) => {
                    input.text = text;
                    return input;
                }
                Ok(None) => {}
                Err(error) => {
                    let path = error.path.display().to_string();
                    self.show_error(path, "skill_expansion", error.to_string())
                        .await;
                    return input;
                }
            }
        }
        if let Some(text) = self.resources.expand_template(&input.text) {
            input.text = text;
        }
        input
    }
}

/// A message of text and images. Providers refuse empty text, so there is no block of it.
fn user_message(text: &str, images: Vec<ImageContent>, now: i64) -> Result<Arc<Message>, String> {
    let said = !text.trim().is_empty();
    if !said && images.is_empty() {
        return Err(EMPTY.to_owned());
    }
    let mut blocks: Vec<Content> = said.then(|| Content::text(text)).into_iter().collect();
    blocks.extend(images.into_iter().map(Content::Image));
    Ok(Arc::new(Message::user_blocks(blocks, now)))
}
