//! Commands of a front end and the answers to them.

use fluzo_llm::{Content, ImageContent};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

/// What a front end may ask for. The JSON form is pi's RPC.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    /// Starts a run, or queues the message during one.
    #[serde(rename_all = "camelCase")]
    Prompt {
        /// The text.
        message: String,
        /// Images that go with it.
        #[serde(default, deserialize_with = "image_blocks")]
        images: Vec<ImageContent>,
        /// Which queue takes it during a run; without one it is refused then.
        #[serde(default)]
        streaming_behavior: Option<QueueBehavior>,
    },
    /// Queues a message to be taken in after the current turn.
    Steer {
        /// The text.
        message: String,
        /// Images that go with it.
        #[serde(default, deserialize_with = "image_blocks")]
        images: Vec<ImageContent>,
    },
    /// Queues a message to be taken in when the run would end.
    FollowUp {
        /// The text.
        message: String,
        /// Images that go with it.
        #[serde(default, deserialize_with = "image_blocks")]
        images: Vec<ImageContent>,
    },
    /// Aborts the run, or the wait before a further attempt.
    Abort,
    /// Ends the wait before a further attempt.
    AbortRetry,
    /// Asks for the snapshot.
    GetState,
    /// Asks for the messages of the session.
    GetMessages,
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

impl Command {
    /// Names of all commands.
    pub const NAMES: [&'static str; 7] = [
        "prompt",
        "steer",
        "follow_up",
        "abort",
        "abort_retry",
        "get_state",
        "get_messages",
    ];

    /// The name of the command in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Prompt { .. } => "prompt",
            Self::Steer { .. } => "steer",
            Self::FollowUp { .. } => "follow_up",
            Self::Abort => "abort",
            Self::AbortRetry => "abort_retry",
            Self::GetState => "get_state",
            Self::GetMessages => "get_messages",
        }
    }
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The id that the command came with.
    pub id: Option<Value>,
    /// Name of the command.
    pub command: String,
    /// What came of it: data, or why it was refused.
    pub result: Result<Option<Value>, String>,
}

impl Response {
    /// The answer as one JSON object with pi's keys in pi's order.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        if let Some(id) = &self.id {
            object.insert("id".into(), id.clone());
        }
        object.insert("type".into(), json!("response"));
        object.insert("command".into(), json!(self.command));
        object.insert("success".into(), json!(self.result.is_ok()));
        match &self.result {
            Ok(Some(data)) => object.insert("data".into(), data.clone()),
            Ok(None) => None,
            Err(error) => object.insert("error".into(), json!(error)),
        };
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
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
            let json = format!(r#"{{"type":"{name}","message":"x"}}"#);
            let command: Command = serde_json::from_str(&json).unwrap();
            assert_eq!(command.name(), name);
        }
    }

    #[test]
    fn answers_have_pi_keys_in_order() {
        let ok = Response {
            id: Some(json!("1")),
            command: "abort".into(),
            result: Ok(None),
        };
        assert_eq!(
            ok.to_json().to_string(),
            r#"{"id":"1","type":"response","command":"abort","success":true}"#
        );
        let err = Response {
            id: None,
            command: "x".into(),
            result: Err("no".into()),
        };
        assert_eq!(
            err.to_json().to_string(),
            r#"{"type":"response","command":"x","success":false,"error":"no"}"#
        );
    }
}
