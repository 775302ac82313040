//! What is told of a redirect that was not followed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::AssistantMessage;

/// The field of a message that says more about its error than the text does.
const DETAILS: &str = "errorDetails";

/// A request that a server answered with a redirect, which is never followed.
///
/// It holds nothing secret: of the address in the answer only scheme, host and port are kept.
/// Its JSON form stands in the `errorDetails` of a failed message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "redirect_blocked", rename_all = "camelCase")]
pub struct RedirectBlocked {
    /// The status, 300 to 399.
    pub status: u16,
    /// Our id of the request; `None` until the runtime gives it one.
    pub operation_id: Option<String>,
    /// The server's id of the request, or one made up in its place.
    pub correlation_id: Option<String>,
    /// Where the server wanted the client to go; `None` when that cannot be read.
    pub destination: Option<RedirectDestination>,
}

/// The part of an address that is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedirectDestination {
    /// Scheme, such as `https`.
    pub scheme: String,
    /// Host name, or address; an IPv6 address stands in brackets.
    pub host: String,
    /// Port, also when it is the usual one of the scheme; `None` when the scheme has none.
    pub port: Option<u16>,
}

impl RedirectBlocked {
    /// What a failed message tells of a redirect, when one was its reason.
    pub fn of_message(message: &AssistantMessage) -> Option<Self> {
        Self::deserialize(message.extra.get(DETAILS)?).ok()
    }

    /// Notes it in a failed message.
    pub(crate) fn note_in(&self, message: &mut AssistantMessage) {
        if let Ok(details) = serde_json::to_value(self) {
            message.extra.insert(DETAILS.into(), details);
        }
    }

    /// The line for a log or a person: status, destination and both ids.
    pub fn summary(&self) -> String {
        let id = |id: &Option<String>| id.clone().unwrap_or_else(|| "none".to_owned());
        let destination = match &self.destination {
            Some(destination) => destination.to_string(),
            None => "unreadable".to_owned(),
        };
        format!(
            "redirect_blocked: status {}, destination {destination}, operation {}, correlation {}",
            self.status,
            id(&self.operation_id),
            id(&self.correlation_id),
        )
    }

    /// What a model is told when a request of one of its tools was redirected and the turn can
    /// go on: what happened, and that only the user can allow another destination.
    pub fn context_text(&self) -> String {
        format!(
            "The request was not completed. {}. Redirects are never followed: do not request the destination yourself. \
             Tell the user, who can change the configured address.",
            self.summary()
        )
    }
}

impl fmt::Display for RedirectDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(destination: Option<RedirectDestination>) -> RedirectBlocked {
        RedirectBlocked {
            status: 307,
            operation_id: Some("op-1".into()),
            correlation_id: Some("srv-1".into()),
            destination,
        }
    }

    fn elsewhere() -> RedirectDestination {
        RedirectDestination {
            scheme: "https".into(),
            host: "evil.example".into(),
            port: Some(443),
        }
    }

    #[test]
    fn json_has_a_type_and_camel_case_fields() {
        let rows = [
            (
                Some(elsewhere()),
                r#"{"scheme":"https","host":"evil.example","port":443}"#,
            ),
            (None, "null"),
        ];
        for (destination, json) in rows {
            let expected = format!(
                r#"{{"type":"redirect_blocked","status":307,"operationId":"op-1","correlationId":"srv-1","destination":{json}}}"#
            );
            let written = serde_json::to_string(&blocked(destination)).unwrap();
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn the_summary_names_both_ids_and_no_more_than_an_origin() {
        let rows = [
            (
                blocked(Some(elsewhere())),
                "redirect_blocked: status 307, destination https://evil.example:443, operation op-1, correlation srv-1",
            ),
            (
                RedirectBlocked {
                    operation_id: None,
                    correlation_id: None,
                    ..blocked(None)
                },
                "redirect_blocked: status 307, destination unreadable, operation none, correlation none",
            ),
        ];
        for (blocked, text) in rows {
            assert_eq!(blocked.summary(), text);
            let told = blocked.context_text();
            assert!(
                told.contains(text) && told.contains("never followed"),
                "{told}"
            );
        }
    }
}
