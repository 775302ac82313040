//! Every setting, declared once.

/// What values a setting takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettingKind {
    /// Text.
    Text,
    /// True or false.
    Bool,
    /// A whole number in a range, both ends included.
    Number {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// A setting.
#[derive(Debug, Clone, Copy)]
pub struct SettingDef {
    /// Its key; dots lead into objects.
    pub key: &'static str,
    /// What values it takes.
    pub kind: SettingKind,
    /// Its default as JSON; `null` when there is none.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// Keys, for code that asks for a setting.
pub mod key {
    /// Provider of new sessions.
    pub const DEFAULT_PROVIDER: &str = "defaultProvider";
    /// Model of new sessions.
    pub const DEFAULT_MODEL: &str = "defaultModel";
    /// Thinking level of new sessions.
    pub const DEFAULT_THINKING_LEVEL: &str = "defaultThinkingLevel";
    /// Tokens for thinking, level `minimal`.
    pub const THINKING_BUDGET_MINIMAL: &str = "thinkingBudgets.minimal";
    /// Tokens for thinking, level `low`.
    pub const THINKING_BUDGET_LOW: &str = "thinkingBudgets.low";
    /// Tokens for thinking, level `medium`.
    pub const THINKING_BUDGET_MEDIUM: &str = "thinkingBudgets.medium";
    /// Tokens for thinking, level `high`.
    pub const THINKING_BUDGET_HIGH: &str = "thinkingBudgets.high";
    /// File of environment variables with keys.
    pub const ENV_FILE: &str = "envFile";
    /// Whether projects are trusted without an answer.
    pub const PROJECT_TRUST: &str = "defaultProjectTrust";
    /// How the steering queue drains.
    pub const STEERING_MODE: &str = "steeringMode";
    /// How the follow-up queue drains.
    pub const FOLLOW_UP_MODE: &str = "followUpMode";
    /// The shell.
    pub const SHELL_PATH: &str = "shellPath";
    /// Text before every command.
    pub const SHELL_COMMAND_PREFIX: &str = "shellCommandPrefix";
    /// Cap of a command's output file.
    pub const SHELL_OUTPUT_MAX_BYTES: &str = "shellOutputMaxBytes";
    /// Folder of sessions.
    pub const SESSION_DIR: &str = "sessionDir";
    /// Scale images.
    pub const IMAGES_AUTO_RESIZE: &str = "images.autoResize";
    /// Try failed responses again.
    pub const RETRY_ENABLED: &str = "retry.enabled";
    /// How often.
    pub const RETRY_MAX: &str = "retry.maxRetries";
    /// First wait.
    pub const RETRY_BASE_DELAY_MS: &str = "retry.baseDelayMs";
    /// Longest wait a server may ask for.
    pub const RETRY_MAX_WAIT_MS: &str = "retry.maxServerWaitMs";
    /// Limit: connect.
    pub const CONNECT_TIMEOUT_MS: &str = "provider.connectTimeoutMs";
    /// Limit: first output.
    pub const FIRST_OUTPUT_TIMEOUT_MS: &str = "provider.firstOutputTimeoutMs";
    /// Limit: silence in a response.
    pub const IDLE_TIMEOUT_MS: &str = "provider.idleTimeoutMs";
    /// Limit: whole request.
    pub const TOTAL_TIMEOUT_MS: &str = "provider.totalTimeoutMs";
    /// Limit of discovery: connect.
    pub const DISCOVERY_CONNECT_TIMEOUT_MS: &str = "discovery.connectTimeoutMs";
    /// Limit of discovery: whole request.
    pub const DISCOVERY_TOTAL_TIMEOUT_MS: &str = "discovery.totalTimeoutMs";
    /// Limit of a sign-in: connect.
    pub const SIGN_IN_CONNECT_TIMEOUT_MS: &str = "signIn.connectTimeoutMs";
    /// Limit of a sign-in: whole request.
    pub const SIGN_IN_TOTAL_TIMEOUT_MS: &str = "signIn.totalTimeoutMs";
    /// Files of certificate authorities.
    pub const CA_FILES: &str = "caFiles";
}

const LEVELS: &[&str] = &["off", "minimal", "low", "medium", "high", "xhigh"];
const MODES: &[&str] = &["one-at-a-time", "all"];
/// More than any model thinks.
const BUDGET: SettingKind = SettingKind::Number {
    min: 0,
    max: 1 << 24,
};
const DAY_MS: u64 = 86_400_000;
const TIMEOUT: SettingKind = SettingKind::Number {
    min: 1,
    max: DAY_MS,
};

/// The settings of the open profile.
pub const OPEN: &[SettingDef] = &[
    def(
        key::DEFAULT_PROVIDER,
        SettingKind::Text,
        "null",
        "Provider of new sessions.",
    ),
    def(
        key::DEFAULT_MODEL,
        SettingKind::Text,
        "null",
        "Model of new sessions.",
    ),
    def(
        key::DEFAULT_THINKING_LEVEL,
        SettingKind::OneOf(LEVELS),
        "\"medium\"",
        "Thinking level of new sessions.",
    ),
    def(
        key::THINKING_BUDGET_MINIMAL,
        BUDGET,
        "null",
        "Tokens for thinking at level `minimal`, where a provider counts them; without it the provider's own.",
    ),
    def(
        key::THINKING_BUDGET_LOW,
        BUDGET,
        "null",
        "Tokens for thinking at level `low`, where a provider counts them; without it the provider's own.",
    ),
    def(
        key::THINKING_BUDGET_MEDIUM,
        BUDGET,
        "null",
        "Tokens for thinking at level `medium`, where a provider counts them; without it the provider's own.",
    ),
    def(
        key::THINKING_BUDGET_HIGH,
        BUDGET,
        "null",
        "Tokens for thinking at level `high` and above, where a provider counts them; without it the provider's own.",
    ),
    def(
        key::ENV_FILE,
        SettingKind::Text,
        "null",
        "File of environment variables with keys, below the real environment. Only the user's file is asked.",
    ),
    def(
        key::PROJECT_TRUST,
        SettingKind::OneOf(&["ask", "always", "never"]),
        "\"ask\"",
        "Whether a project's own settings count: only with `always`, or with --approve. Only the user's file is asked.",
    ),
    def(
        key::STEERING_MODE,
        SettingKind::OneOf(MODES),
        "\"one-at-a-time\"",
        "How many steering messages a turn takes in.",
    ),
    def(
        key::FOLLOW_UP_MODE,
        SettingKind::OneOf(MODES),
        "\"one-at-a-time\"",
        "How many follow-up messages are taken in at once.",
    ),
    def(
        key::SHELL_PATH,
        SettingKind::Text,
        "null",
        "Shell for commands; without it /bin/bash, else the first bash or sh found.",
    ),
    def(
        key::SHELL_COMMAND_PREFIX,
        SettingKind::Text,
        "null",
        "Text put before every command, on its own line.",
    ),
    def(
        key::SHELL_OUTPUT_MAX_BYTES,
        SettingKind::Number {
            min: 0,
            max: 1 << 40,
        },
        "1073741824",
        "Most bytes of one command's output that are kept in a file.",
    ),
    def(
        key::SESSION_DIR,
        SettingKind::Text,
        "null",
        "Folder for session files, instead of one folder for each working folder.",
    ),
    def(
        key::IMAGES_AUTO_RESIZE,
        SettingKind::Bool,
        "true",
        "Scale images to what providers accept.",
    ),
    def(
        key::RETRY_ENABLED,
        SettingKind::Bool,
        "true",
        "Try a response that failed for a passing reason again.",
    ),
    def(
        key::RETRY_MAX,
        SettingKind::Number { min: 0, max: 100 },
        "3",
        "Most further attempts.",
    ),
    def(
        key::RETRY_BASE_DELAY_MS,
        SettingKind::Number {
            min: 0,
            max: DAY_MS,
        },
        "2000",
        "Wait before the first further attempt; doubled for each one after.",
    ),
    def(
        key::RETRY_MAX_WAIT_MS,
        SettingKind::Number {
            min: 0,
            max: DAY_MS,
        },
        "600000",
        "Longest wait that is accepted when a server asks for one.",
    ),
    def(
        key::CONNECT_TIMEOUT_MS,
        TIMEOUT,
        "null",
        "Limit for connecting to a provider.",
    ),
    def(
        key::FIRST_OUTPUT_TIMEOUT_MS,
        TIMEOUT,
        "null",
        "Limit for the first output of a response.",
    ),
    def(
        key::IDLE_TIMEOUT_MS,
        TIMEOUT,
        "null",
        "Limit for silence within a response.",
    ),
    def(
        key::TOTAL_TIMEOUT_MS,
        TIMEOUT,
        "null",
        "Limit for a whole request.",
    ),
    def(
        key::DISCOVERY_CONNECT_TIMEOUT_MS,
        TIMEOUT,
        "5000",
        "Limit for connecting to a server whose models are listed.",
    ),
    def(
        key::DISCOVERY_TOTAL_TIMEOUT_MS,
        TIMEOUT,
        "10000",
        "Limit for a whole list of models.",
    ),
    def(
        key::SIGN_IN_CONNECT_TIMEOUT_MS,
        TIMEOUT,
        "10000",
        "Limit for connecting to a server that signs in or renews a sign-in.",
    ),
    def(
        key::SIGN_IN_TOTAL_TIMEOUT_MS,
        TIMEOUT,
        "30000",
        "Limit for a whole request to such a server.",
    ),
    def(
        key::CA_FILES,
        SettingKind::Text,
        "null",
        "Files of certificate authorities (PEM) that are trusted besides the built-in ones, separated by `:`.",
    ),
];

const fn def(
    key: &'static str,
    kind: SettingKind,
    default: &'static str,
    doc: &'static str,
) -> SettingDef {
    SettingDef {
        key,
        kind,
        default,
        doc,
    }
}
