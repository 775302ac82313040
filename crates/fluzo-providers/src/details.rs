//! The `details` of an error in Google's form: typed objects beside code, message and status.
//!
//! The types are those of the public `google/rpc/error_details.proto`: `RetryInfo`,
//! `QuotaFailure` and `ErrorInfo`.

use fluzo_llm::StreamErrorKind;
use serde_json::Value;

/// The wait of `RetryInfo`, in seconds.
pub(crate) fn retry_delay(error: &Value) -> Option<f64> {
    let delay = of_type(error, "RetryInfo").find_map(|info| info.get("retryDelay")?.as_str())?;
    delay.trim().strip_suffix('s')?.trim().parse().ok()
}

/// Whether a used-up allowance that `error` reports comes back within minutes or only the next
/// day. The message is the same for both, the names of the limits are not.
pub(crate) fn allowance(error: &Value) -> Option<StreamErrorKind> {
    let mut kind = None;
    for limit in limits(error) {
        // A limit of zero is a model that the plan does not have.
        if limit.of_zero || contains_any(limit.name, &["perday", "permonth"]) {
            return Some(StreamErrorKind::Quota);
        }
        if contains_any(limit.name, &["perminute", "persecond", "perhour"]) {
            kind = Some(StreamErrorKind::RateLimit);
        }
    }
    kind
}

/// The reason of `ErrorInfo`, such as `API_KEY_INVALID`.
pub(crate) fn reason(error: &Value) -> Option<&str> {
    of_type(error, "ErrorInfo").find_map(|info| info.get("reason")?.as_str())
}

struct QuotaLimit<'a> {
    name: &'a str,
    of_zero: bool,
}

fn limits(error: &Value) -> impl Iterator<Item = QuotaLimit<'_>> {
    let violations = of_type(error, "QuotaFailure")
        .filter_map(|failure| failure.get("violations")?.as_array())
        .flatten()
        .filter_map(|violation| {
            let value = violation.get("quotaValue");
            Some(QuotaLimit {
                name: violation.get("quotaId")?.as_str()?,
                of_zero: value.is_some_and(|value| value == "0" || value == 0),
            })
        });
    let named = of_type(error, "ErrorInfo").filter_map(|info| {
        Some(QuotaLimit {
            name: info.pointer("/metadata/quota_limit")?.as_str()?,
            of_zero: false,
        })
    });
    violations.chain(named)
}

fn of_type<'a>(error: &'a Value, name: &'static str) -> impl Iterator<Item = &'a Value> {
    let details = error.get("details").and_then(Value::as_array);
    let is = move |detail: &&Value| {
        let kind = detail.get("@type").and_then(Value::as_str);
        kind.is_some_and(|kind| kind.rsplit('.').next() == Some(name))
    };
    details.into_iter().flatten().filter(is)
}

fn contains_any(text: &str, words: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    words.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use StreamErrorKind::{Quota, RateLimit};
    use serde_json::json;

    use super::*;

    fn error(details: Value) -> Value {
        json!({"code": 429, "message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED", "details": details})
    }

    fn quota(ids: &[(&str, &str)]) -> Value {
        let violation = |(id, value): &(&str, &str)| json!({"quotaId": id, "quotaValue": value});
        let violations: Vec<Value> = ids.iter().map(violation).collect();
        error(
            json!([{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}]),
        )
    }

    #[test]
    fn waits() {
        let rows = [
            (json!("29s"), Some(29.0)),
            (json!("36.429760048s"), Some(36.429_760_048)),
            (json!("0s"), Some(0.0)),
            (json!("29"), None),
            (json!(29), None),
            (json!("soon"), None),
        ];
        for (delay, expected) in rows {
            let info = json!([
                {"@type": "type.googleapis.com/google.rpc.Help"},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
            ]);
            assert_eq!(retry_delay(&error(info)), expected, "{delay}");
        }
        for odd in [json!(null), json!("x"), json!([null, 7, {}]), json!({})] {
            assert_eq!(retry_delay(&error(odd)), None);
        }
    }

    #[test]
    fn the_name_of_a_limit_tells_how_long_it_lasts() {
        type Limits = &'static [(&'static str, &'static str)];
        let rows: [(Limits, Option<StreamErrorKind>); 6] = [
            (
                &[("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "10")],
                Some(RateLimit),
            ),
            (
                &[("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "20")],
                Some(Quota),
            ),
            (
                &[
                    (
                        "GenerateContentInputTokensPerModelPerMinute-FreeTier",
                        "250000",
                    ),
                    ("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "20"),
                ],
                Some(Quota),
            ),
            (
                &[("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "0")],
                Some(Quota),
            ),
            (&[("SomethingElse", "5")], None),
            (&[], None),
        ];
        for (ids, expected) in rows {
            assert_eq!(allowance(&quota(ids)), expected, "{ids:?}");
        }
        let info = json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED",
            "metadata": {"quota_limit": "Gemini25ProRequestsPerDay"},
        }]);
        assert_eq!(allowance(&error(info.clone())), Some(Quota));
        assert_eq!(reason(&error(info)), Some("RATE_LIMIT_EXCEEDED"));
    }
}
