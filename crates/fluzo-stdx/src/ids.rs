//! Ids of sessions and entries, behind a trait so that tests choose them.

use uuid::{NoContext, Timestamp, Uuid};

/// Where new ids come from.
pub trait IdSource: Send + Sync {
    /// A new session id: a UUIDv7 whose time part is `now_ms` (Unix milliseconds).
    fn session_id(&self, now_ms: i64) -> String;

    /// A candidate for an entry id: eight hexadecimal characters. The caller
    /// checks it against the ids it has and asks again on a collision.
    fn entry_id(&self) -> String;

    /// An id that is unique beyond doubt, for when short candidates keep colliding.
    fn long_id(&self) -> String;
}

/// Ids from the operating system's random source.
#[derive(Debug, Default, Clone, Copy)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn session_id(&self, now_ms: i64) -> String {
        let ms = u64::try_from(now_ms).unwrap_or(0);
        let nanos = u32::try_from(ms % 1000).unwrap_or(0) * 1_000_000;
        Uuid::new_v7(Timestamp::from_unix(NoContext, ms / 1000, nanos)).to_string()
    }

    fn entry_id(&self) -> String {
        let mut id = Uuid::new_v4().simple().to_string();
        id.truncate(8);
        id
    }

    fn long_id(&self) -> String {
        Uuid::new_v4().to_string()
    }
}

/// Ids that count upwards; for tests and deterministic demos.
#[derive(Debug, Default)]
pub struct CountingIds {
    next: std::sync::atomic::AtomicU32,
}

impl CountingIds {
    fn bump(&self) -> u32 {
        self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
}

impl IdSource for CountingIds {
    fn session_id(&self, _now_ms: i64) -> String {
        format!("00000000-0000-7000-8000-{:012x}", self.bump())
    }

    fn entry_id(&self) -> String {
        format!("{:08x}", self.bump())
    }

    fn long_id(&self) -> String {
        format!("long-{:08x}", self.bump())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_uuid_v7_with_the_given_time() {
        let id = RandomIds.session_id(0x0190_0000_0000);
        let uuid = Uuid::parse_str(&id).unwrap();
        assert_eq!(uuid.get_version_num(), 7);
        assert!(id.starts_with("01900000-0000-7"), "{id}");
    }

    #[test]
    fn entry_ids_are_eight_hex_characters() {
        let id = RandomIds.entry_id();
        assert_eq!(id.len(), 8);
        assert!(id.bytes().all(|b| b.is_ascii_hexdigit()));
    }
}
