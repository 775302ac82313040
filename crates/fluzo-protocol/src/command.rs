//! Commands of a front end and the answers to them.

use fluzo_llm::{Content, ImageContent, ThinkingLevel};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Declares the commands: name in JSON, variant and fields, each once.
macro_rules! commands {
    ($($(#[$meta:meta])* $name:literal $variant:ident $({ $($(#[$field_meta:meta])* $field:ident: $kind:ty),* $(,)? })?;)*) => {
        /// What a front end may ask for. The JSON form is pi's RPC.
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        #[serde(tag = "type")]
        pub enum Command {
            $($(#[$meta])* #[serde(rename = $name, rename_all = "camelCase")]
            $variant $({ $($(#[$field_meta])* $field: $kind),* })?,)*
        }

        impl Command {
            /// Names of all commands.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The name of the command in JSON.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)*
                }
            }
        }
    };
}

commands! {
    /// Starts a run, or queues the message during one.
    "prompt" Prompt {
        /// The text.
        message: String,
        /// Images that go with it.
        #[serde(default, deserialize_with = "image_blocks")]
        images: Vec<ImageContent>,
        /// Which queue takes it during a run; without one it is refused then.
        #[serde(default)]
        streaming_behavior: Option<QueueBehavior>,
    };
    /// Queues a message to be taken in after the current turn.
    "steer" Steer {
        /// The text.
        message: String,
        /// Images that go with it.
        #[serde(default, deserialize_with = "image_blocks")]
        images: Vec<ImageContent>,
    };
    /// Queues a message to be taken in when the run would end.
    "follow_up" FollowUp {
        /// The text.
        message: String,
        /// Images that go with it.
        #[serde(default, deserialize_with = "image_blocks")]
        images: Vec<ImageContent>,
    };
    /// Takes the waiting messages out of the queues and returns their texts.
    "clear_queue" ClearQueue;
    /// Aborts the run, or what it waits for.
    "abort" Abort;
    /// Begins another session.
    "new_session" NewSession {
        /// What the session comes from: a path, an id or free text.
        #[serde(default)]
        parent_session: Option<String>,
    };
    /// Asks for the snapshot.
    "get_state" GetState;
    /// Uses another model from here on.
    "set_model" SetModel {
        /// Its provider.
        provider: String,
        /// Its id.
        model_id: String,
    };
    /// Uses the next model of the scope, or of all that can be used.
    "cycle_model" CycleModel {
        /// Where to.
        #[serde(default)]
        direction: Direction,
    };
    /// Asks for the models that can be used.
    "get_available_models" GetAvailableModels;
    /// Asks for the scope of models, as patterns and as models.
    "get_scoped_models" GetScopedModels;
    /// Sets the scope of models.
    "set_scoped_models" SetScopedModels {
        /// Patterns as `--models` takes them; none for all models.
        patterns: Vec<String>,
    };
    /// Sets how much the model thinks, as far as it can.
    "set_thinking_level" SetThinkingLevel {
        /// The level.
        level: ThinkingLevel,
    };
    /// Sets the next thinking level that the model knows.
    "cycle_thinking_level" CycleThinkingLevel;
    /// Asks for the thinking levels that the model knows.
    "get_available_thinking_levels" GetAvailableThinkingLevels;
    /// Sets how the steering queue drains.
    "set_steering_mode" SetSteeringMode {
        /// The mode.
        mode: DrainMode,
    };
    /// Sets how the follow-up queue drains.
    "set_follow_up_mode" SetFollowUpMode {
        /// The mode.
        mode: DrainMode,
    };
    /// Replaces the older part of the conversation by a summary.
    "compact" Compact {
        /// What the summary is to dwell on.
        #[serde(default)]
        custom_instructions: Option<String>,
    };
    /// Ends a compaction that is going on.
    "abort_compaction" AbortCompaction;
    /// Whether a session that grows too large is compacted by itself.
    "set_auto_compaction" SetAutoCompaction {
        /// Whether it is.
        enabled: bool,
    };
    /// Whether failed responses are tried again.
    "set_auto_retry" SetAutoRetry {
        /// Whether they are.
        enabled: bool,
    };
    /// Ends the wait before a further attempt.
    "abort_retry" AbortRetry;
    /// Runs a command of the user's in the shell.
    "bash" Bash {
        /// The command.
        command: String,
        /// Whether the model does not get to see it.
        #[serde(default)]
        exclude_from_context: bool,
    };
    /// Ends the user's command that is running.
    "abort_bash" AbortBash;
    /// Asks for counts, tokens and cost of the session.
    "get_session_stats" GetSessionStats;
    /// Writes the session as a page.
    "export_html" ExportHtml {
        /// Where to; a name in the working folder without one.
        #[serde(default)]
        output_path: Option<String>,
    };
    /// Writes the current branch as a session file.
    "export_jsonl" ExportJsonl {
        /// Where to; a name in the working folder without one.
        #[serde(default)]
        output_path: Option<String>,
    };
    /// Copies a session file to the others and goes on with it.
    "import_session" ImportSession {
        /// The file.
        path: String,
    };
    /// Publishes the session as a secret gist.
    "share" Share;
    /// Ends the publication that is going on.
    "abort_share" AbortShare;
    /// Asks for the sessions there are.
    "list_sessions" ListSessions {
        /// Those of all folders, not only of this one.
        #[serde(default)]
        all: bool,
    };
    /// Goes on with another session.
    "switch_session" SwitchSession {
        /// Its file.
        session_path: String,
    };
    /// Makes a session of what was said before a user message.
    "fork" Fork {
        /// Entry of the message.
        entry_id: String,
    };
    /// Makes a session of the current branch.
    "clone" Clone;
    /// Asks for the user messages that a fork can be made at.
    "get_fork_messages" GetForkMessages;
    /// Moves to another entry of the tree.
    "navigate_tree" NavigateTree {
        /// The entry.
        entry_id: String,
        /// Whether the branch that is left is summarised.
        #[serde(default)]
        summarize: bool,
        /// What the summary is to dwell on.
        #[serde(default)]
        custom_instructions: Option<String>,
        /// Whether these instructions take the place of the usual ones.
        #[serde(default)]
        replace_instructions: bool,
        /// Label for the entry that is moved to, or for the summary.
        #[serde(default)]
        label: Option<String>,
    };
    /// Ends the summary of a branch that is being made.
    "abort_branch_summary" AbortBranchSummary;
    /// Sets or takes away the label of an entry.
    "set_label" SetLabel {
        /// The entry.
        entry_id: String,
        /// Its label; none takes it away.
        #[serde(default)]
        label: Option<String>,
    };
    /// Asks for the entries of the session.
    "get_entries" GetEntries {
        /// Only those behind this one.
        #[serde(default)]
        since: Option<String>,
    };
    /// Asks for the entries as trees.
    "get_tree" GetTree;
    /// Asks for the text of the last response.
    "get_last_assistant_text" GetLastAssistantText;
    /// Names the session.
    "set_session_name" SetSessionName {
        /// The name.
        name: String,
    };
    /// Asks for the messages of the session.
    "get_messages" GetMessages;
    /// Asks for the commands that a prompt may begin with: of extensions, templates, skills.
    "get_commands" GetCommands;
    /// Asks for all tools.
    "get_tools" GetTools;
    /// Asks for the names of the tools on offer.
    "get_active_tools" GetActiveTools;
    /// Sets the tools on offer.
    "set_active_tools" SetActiveTools {
        /// Their names.
        names: Vec<String>,
    };
    /// Asks for the body of the next request, with secrets masked.
    "get_request" GetRequest;
    /// Reads settings, skills, templates, themes and context files again.
    "reload" Reload;
    /// Asks for what was wrong with skills, templates, themes and context files.
    "get_diagnostics" GetDiagnostics;
}

/// Where to go in a list that has no end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the next.
    #[default]
    Forward,
    /// To the one before.
    Backward,
}

/// How a queue drains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainMode {
    /// One message at a time.
    #[default]
    OneAtATime,
    /// All that waits.
    All,
}

impl DrainMode {
    /// The mode as settings name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OneAtATime => "one-at-a-time",
            Self::All => "all",
        }
    }

    /// The mode that settings name so; the default for any other text.
    pub fn parse(text: &str) -> Self {
        if text == "all" {
            Self::All
        } else {
            Self::OneAtATime
        }
    }
}

fn image_blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ImageContent>, D::Error> {
    let blocks = Vec::<Content>::deserialize(deserializer)?;
    let image = |block| match block {
        Content::Image(image)
            if !image.data.is_empty() && image.mime_type.starts_with("image/") =>
        {
            Ok(image)
        }
        _ => Err(D::Error::custom(
            "`images` must be image blocks: {\"type\": \"image\", \"data\": BASE64, \"mimeType\": \"image/…\"}",
        )),
    };
    blocks.into_iter().map(image).collect()
}

/// Which queue takes a prompt during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QueueBehavior {
    /// The steering queue.
    Steer,
    /// The follow-up queue.
    FollowUp,
}

/// The answer to a command.
#[derive(Debug, Clone)]
pub struct Response {
    /// The id that the command came with.
    pub id: Option<Value>,
    /// Name of the command.
    pub command: String,
    /// What came of it: data, or why it was refused.
    pub result: Result<Option<Box<RawValue>>, String>,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    r#type: &'static str,
    command: &'a str,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl Response {
    /// The answer as one JSON object with pi's keys in pi's order, without the line end.
    ///
    /// # Errors
    ///
    /// When it has no JSON form, which what was read from JSON always has.
    pub fn line(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Line {
            id: self.id.as_ref(),
            r#type: "response",
            command: &self.command,
            success: self.result.is_ok(),
            data: self.result.as_ref().ok().and_then(Option::as_deref),
            error: self.result.as_ref().err().map(String::as_str),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_are_read_from_pi_json() {
        let rows = [
            (r#"{"type":"prompt","message":"hi"}"#, "prompt"),
            (
                r#"{"id":"1","type":"prompt","message":"hi","streamingBehavior":"followUp"}"#,
                "prompt",
            ),
            (r#"{"type":"steer","message":"S"}"#, "steer"),
            (r#"{"type":"follow_up","message":"F"}"#, "follow_up"),
            (r#"{"type":"abort"}"#, "abort"),
            (r#"{"type":"get_state"}"#, "get_state"),
        ];
        for (json, name) in rows {
            let command: Command = serde_json::from_str(json).unwrap();
            assert_eq!(command.name(), name);
        }
    }

    #[test]
    fn images_are_image_blocks() {
        let rows = [
            (
                r#"{"type":"image","data":"iVBOR","mimeType":"image/png"}"#,
                true,
            ),
            (
                r#"{"type":"image","data":"","mimeType":"image/png"}"#,
                false,
            ),
            (
                r#"{"type":"image","data":"iVBOR","mimeType":"text/html"}"#,
                false,
            ),
            (r#"{"type":"image","data":"iVBOR"}"#, false),
            (r#"{"type":"text","text":"x"}"#, false),
            (
                r#"{"type":"toolCall","id":"c","name":"bash","arguments":{}}"#,
                false,
            ),
            (r#""x""#, false),
        ];
        for (block, ok) in rows {
            for name in ["prompt", "steer", "follow_up"] {
                let json = format!(r#"{{"type":"{name}","message":"x","images":[{block}]}}"#);
                let command = serde_json::from_str::<Command>(&json);
                assert_eq!(command.is_ok(), ok, "{json}");
                if let Err(error) = command {
                    assert!(error.to_string().starts_with("`images` must be"), "{error}");
                }
            }
        }
    }

    #[test]
    fn every_name_is_a_command() {
        for name in Command::NAMES {
            let json = json!({
                "type": name, "message": "x", "provider": "p", "modelId": "m", "level": "low", "mode": "all",
                "enabled": true, "command": "ls", "sessionPath": "s", "path": "s", "entryId": "e", "name": "n",
                "names": [], "patterns": [],
            });
            let command: Command = serde_json::from_value(json).unwrap();
            assert_eq!(command.name(), *name);
        }
    }

    #[test]
    fn a_name_stands_once() {
        let mut names = Command::NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Command::NAMES.len());
    }

    #[test]
    fn answers_have_pi_keys_in_order() {
        let ok = Response {
            id: Some(json!("1")),
            command: "abort".into(),
            result: Ok(None),
        };
        assert_eq!(
            ok.line().unwrap(),
            r#"{"id":"1","type":"response","command":"abort","success":true}"#
        );
        let err = Response {
            id: None,
            command: "x".into(),
            result: Err("no".into()),
        };
        assert_eq!(
            err.line().unwrap(),
            r#"{"type":"response","command":"x","success":false,"error":"no"}"#
        );
    }
}
