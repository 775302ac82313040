//! Every setting of the open profile, declared once. Names and defaults are pi's where pi
//! has the setting.

use crate::kind::SettingKind::{
    self, Bool, BoolOr, Number, NumberOrDisabled, Numbers, OneOf, Packages, Table, Text, Texts,
};

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
    /// Whose files are asked for it.
    pub scope: Scope,
}

/// Whose files are asked for a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The user's, then the project's.
    Any,
    /// Only the user's: a project must not choose it.
    User,
}

const LEVEL: SettingKind = OneOf(&["off", "minimal", "low", "medium", "high", "xhigh"]);
const MODE: SettingKind = OneOf(&["one-at-a-time", "all"]);
const TOKENS: SettingKind = Number {
    min: 0,
    max: 1 << 32,
};
/// More than any model thinks.
const BUDGET: SettingKind = Number {
    min: 0,
    max: 1 << 24,
};
const DAY_MS: u64 = 86_400_000;
const WAIT: SettingKind = Number {
    min: 0,
    max: DAY_MS,
};
const TIMEOUT: SettingKind = Number {
    min: 1,
    max: DAY_MS,
};
const LIMIT_OR_OFF: SettingKind = NumberOrDisabled { max: DAY_MS };
const ATTEMPTS: SettingKind = Number { min: 0, max: 100 };
const BYTES: SettingKind = Number {
    min: 0,
    max: 1 << 40,
};
const CELLS: SettingKind = Number { min: 1, max: 1000 };
const OVERRIDE: SettingKind = Numbers(&[
    ("reserveTokens", 0, 1 << 32),
    ("keepRecentTokens", 0, 1 << 32),
]);

/// One row for each setting: scope, name in code, key, kind, default, meaning.
macro_rules! settings {
    ($($scope:ident $name:ident $key:literal, $kind:expr, $default:literal, $doc:literal;)*) => {
        /// Keys, for code that asks for a setting.
        pub mod key {
            $(#[doc = $doc] pub const $name: &str = $key;)*
        }

        /// The settings of the open profile.
        pub const OPEN: &[SettingDef] = &[$(SettingDef {
            key: key::$name,
            kind: $kind,
            default: $default,
            doc: $doc,
            scope: Scope::$scope,
        }),*];
    };
}

settings! {
    // Models.
    Any DEFAULT_PROVIDER "defaultProvider", Text, "null", "Provider of new sessions.";
    Any DEFAULT_MODEL "defaultModel", Text, "null", "Model of new sessions.";
    Any DEFAULT_THINKING_LEVEL "defaultThinkingLevel", LEVEL, "\"medium\"", "Thinking level of new sessions.";
    Any MODEL_THINKING_LEVELS "modelThinkingLevels", Table(&LEVEL), "{}", "Thinking levels of new sessions by `provider/model`, before `defaultThinkingLevel`.";
    Any ENABLED_MODELS "enabledModels", Texts, "null", "Patterns of the models to choose from, as --models takes them.";
    Any THINKING_BUDGET_MINIMAL "thinkingBudgets.minimal", BUDGET, "null", "Tokens for thinking at level `minimal`, where a provider counts them; without it the provider's own.";
    Any THINKING_BUDGET_LOW "thinkingBudgets.low", BUDGET, "null", "Tokens for thinking at level `low`, where a provider counts them; without it the provider's own.";
    Any THINKING_BUDGET_MEDIUM "thinkingBudgets.medium", BUDGET, "null", "Tokens for thinking at level `medium`, where a provider counts them; without it the provider's own.";
    Any THINKING_BUDGET_HIGH "thinkingBudgets.high", BUDGET, "null", "Tokens for thinking at level `high` and above, where a provider counts them; without it the provider's own.";
    Any TRANSPORT "transport", OneOf(&["sse", "websocket", "websocket-cached", "auto"]), "\"auto\"", "How responses come from servers that offer several ways. This version always uses server-sent events.";
    User CACHE_WARMING "cacheWarming", OneOf(&["off", "streaming", "idle"]), "\"off\"", "Whether caches of prompts are kept warm by further requests. This version sends none.";
    User ENV_FILE "envFile", Text, "null", "File of environment variables with keys, below the real environment.";

    // Trust.
    User PROJECT_TRUST "defaultProjectTrust", OneOf(&["ask", "always", "never"]), "\"ask\"", "Whether a project's own settings, skills, prompts, themes and packages count when no answer is saved for it.";

    // Messages and the loop.
    Any STEERING_MODE "steeringMode", MODE, "\"one-at-a-time\"", "How many steering messages a turn takes in.";
    Any FOLLOW_UP_MODE "followUpMode", MODE, "\"one-at-a-time\"", "How many follow-up messages are taken in at once.";
    Any LOOP_GUARD "loopGuard", Bool, "true", "Notice the same call with the same result, over and over: tell the model, then stop the run.";
    Any DEFAULT_TOOLS "defaultTools", Texts, "null", "Tools on offer when no flag names any; without it read, bash, edit, write.";
    Any CODEMODE_MODE "codemode.mode", Text, "null", "How tools are called from code. This version has no such mode.";
    Any CODEMODE_INLINE_BUDGET "codemode.inlineBudget", TOKENS, "null", "Tokens for tools described within that mode. This version has no such mode.";

    // Compaction.
    Any COMPACTION_ENABLED "compaction.enabled", Bool, "true", "Compact a session by itself when its context gets too large for the model.";
    Any COMPACTION_RESERVE_TOKENS "compaction.reserveTokens", TOKENS, "16384", "Tokens of the window that are kept free for the response.";
    Any COMPACTION_KEEP_RECENT_TOKENS "compaction.keepRecentTokens", TOKENS, "20000", "Tokens of the latest messages that a compaction keeps as they are.";
    Any COMPACTION_SUMMARY_MODEL "compaction.summaryModel", Text, "null", "Model that writes summaries, as --model takes it; without it the session's model.";
    Any COMPACTION_MODEL_OVERRIDES "compaction.modelOverrides", Table(&OVERRIDE), "{}", "`reserveTokens` and `keepRecentTokens` by `provider/model`.";
    Any BRANCH_SUMMARY_RESERVE_TOKENS "branchSummary.reserveTokens", TOKENS, "16384", "Tokens of the window that are kept free when a branch is summarised.";
    Any BRANCH_SUMMARY_SKIP_PROMPT "branchSummary.skipPrompt", Bool, "false", "Do not ask for a summary when a branch is left; none is made then.";

    // Retry and limits.
    Any RETRY_ENABLED "retry.enabled", Bool, "true", "Try a response that failed for a passing reason again.";
    Any RETRY_MAX "retry.maxRetries", ATTEMPTS, "3", "Most further attempts.";
    Any RETRY_BASE_DELAY_MS "retry.baseDelayMs", WAIT, "2000", "Wait before the first further attempt; doubled for each one after.";
    Any RETRY_MAX_AGENT_DELAY_MS "retry.maxAgentDelayMs", WAIT, "null", "Longest of these doubled waits.";
    Any RETRY_MAX_WAIT_MS "retry.maxServerWaitMs", WAIT, "600000", "Longest wait that is accepted when a server asks for one.";
    Any RETRY_PROVIDER_TIMEOUT_MS "retry.provider.timeoutMs", TIMEOUT, "null", "Limit for one request; without it `provider.totalTimeoutMs`.";
    Any RETRY_PROVIDER_MAX "retry.provider.maxRetries", ATTEMPTS, "0", "Most further attempts of one request, before those of `retry.maxRetries`.";
    Any RETRY_PROVIDER_MAX_DELAY_MS "retry.provider.maxRetryDelayMs", WAIT, "60000", "Longest wait before such an attempt when a server asks for one; 0 accepts any.";
    Any HTTP_IDLE_TIMEOUT_MS "httpIdleTimeoutMs", LIMIT_OR_OFF, "300000", "Limit for silence of a server; 0 is none. Servers on this machine get longer when it is not set.";
    Any WEBSOCKET_CONNECT_TIMEOUT_MS "websocketConnectTimeoutMs", LIMIT_OR_OFF, "15000", "Limit for opening a WebSocket; 0 is none. This version opens none.";
    Any CONNECT_TIMEOUT_MS "provider.connectTimeoutMs", TIMEOUT, "null", "Limit for connecting to a provider.";
    Any FIRST_OUTPUT_TIMEOUT_MS "provider.firstOutputTimeoutMs", TIMEOUT, "null", "Limit for the first output of a response.";
    Any IDLE_TIMEOUT_MS "provider.idleTimeoutMs", TIMEOUT, "null", "Limit for silence within a response, before `httpIdleTimeoutMs`.";
    Any TOTAL_TIMEOUT_MS "provider.totalTimeoutMs", TIMEOUT, "null", "Limit for a whole request.";
    Any DISCOVERY_CONNECT_TIMEOUT_MS "discovery.connectTimeoutMs", TIMEOUT, "5000", "Limit for connecting to a server whose models are listed.";
    Any DISCOVERY_TOTAL_TIMEOUT_MS "discovery.totalTimeoutMs", TIMEOUT, "10000", "Limit for a whole list of models.";
    Any SIGN_IN_CONNECT_TIMEOUT_MS "signIn.connectTimeoutMs", TIMEOUT, "10000", "Limit for connecting to a server that signs in or renews a sign-in.";
    Any SIGN_IN_TOTAL_TIMEOUT_MS "signIn.totalTimeoutMs", TIMEOUT, "30000", "Limit for a whole request to such a server.";
    Any CA_FILES "caFiles", Text, "null", "Files of certificate authorities (PEM) that are trusted besides the built-in ones, separated by `:`.";
    User HTTP_PROXY "httpProxy", Text, "null", "Proxy for HTTP and HTTPS where no variable names one.";

    // Shell and sessions.
    Any SHELL_PATH "shellPath", Text, "null", "Shell for commands; without it /bin/bash, else the first bash or sh found.";
    Any SHELL_COMMAND_PREFIX "shellCommandPrefix", Text, "null", "Text put before every command, on its own line.";
    Any SHELL_OUTPUT_MAX_BYTES "shellOutputMaxBytes", BYTES, "1073741824", "Most bytes of one command's output that are kept in a file.";
    Any SESSION_DIR "sessionDir", Text, "null", "Folder for session files, instead of one folder for each working folder.";
    Any SESSION_SHARE_DESTINATION "sessionShareDestination", Text, "null", "Where shared sessions go. This version shares through GitHub's gists only.";

    // Resources.
    Any PACKAGES "packages", Packages, "[]", "Packages of skills, prompts, themes and extensions: from npm, git or a folder.";
    Any EXTENSIONS "extensions", Texts, "[]", "Files, folders and patterns of extensions.";
    Any SKILLS "skills", Texts, "[]", "Files, folders and patterns of skills.";
    Any PROMPTS "prompts", Texts, "[]", "Files, folders and patterns of prompt templates.";
    Any THEMES "themes", Texts, "[]", "Files, folders and patterns of themes.";
    Any ENABLE_SKILL_COMMANDS "enableSkillCommands", Bool, "true", "Take `/skill:NAME` in a message for the skill.";
    Any NPM_COMMAND "npmCommand", Texts, "[\"npm\"]", "The program npm with its first arguments.";

    // Images.
    Any IMAGES_AUTO_RESIZE "images.autoResize", Bool, "true", "Scale images to what providers accept.";
    Any IMAGES_BLOCK "images.blockImages", Bool, "false", "Send a line of text to the model in the place of every image.";

    // The terminal.
    Any THEME "theme", Text, "null", "Theme of the terminal; without it one that fits its background.";
    Any TUI_MODE "tuiMode", OneOf(&["fullscreen", "regular"]), "null", "Whether the terminal interface takes the whole screen.";
    Any QUIET_STARTUP "quietStartup", BoolOr(&["header"]), "false", "Show less at the start; with `header` the header alone.";
    Any HIDE_THINKING_BLOCK "hideThinkingBlock", Bool, "false", "Fold the model's thinking.";
    Any SHOW_CACHE_MISS_NOTICES "showCacheMissNotices", Bool, "false", "Tell when a server did not find the beginning of a prompt in its cache.";
    Any DOUBLE_ESCAPE_ACTION "doubleEscapeAction", OneOf(&["fork", "tree", "none"]), "\"tree\"", "What pressing Esc twice does.";
    Any TREE_FILTER_MODE "treeFilterMode", OneOf(&["default", "no-tools", "user-only", "labeled-only", "all"]), "\"default\"", "What the tree shows at first.";
    Any EDITOR_PADDING_X "editorPaddingX", Number { min: 0, max: 3 }, "0", "Columns left free beside the input.";
    Any OUTPUT_PAD "outputPad", Number { min: 0, max: 3 }, "null", "Columns left free beside messages.";
    Any AUTOCOMPLETE_MAX_VISIBLE "autocompleteMaxVisible", Number { min: 3, max: 20 }, "5", "Lines of the list of completions.";
    Any SHOW_HARDWARE_CURSOR "showHardwareCursor", Bool, "false", "Show the terminal's own cursor in the input.";
    Any EXTERNAL_EDITOR "externalEditor", Text, "null", "Editor for long messages, before the variables VISUAL and EDITOR.";
    Any TERMINAL_SHOW_IMAGES "terminal.showImages", Bool, "true", "Draw images in terminals that can.";
    Any TERMINAL_IMAGE_WIDTH_CELLS "terminal.imageWidthCells", CELLS, "60", "Width of these images in columns.";
    Any TERMINAL_CLEAR_ON_SHRINK "terminal.clearOnShrink", Bool, "false", "Clear the lines that are no longer needed when the output gets shorter.";
    Any TERMINAL_SHOW_PROGRESS "terminal.showTerminalProgress", Bool, "false", "Show progress in the terminal's title or tab.";
    Any TERMINAL_HYPERLINKS "terminal.hyperlinks", BoolOr(&["auto"]), "\"auto\"", "Write links that the terminal can open.";
    Any TERMINAL_IMAGES "terminal.images", BoolOr(&["auto", "kitty", "iterm2"]), "\"auto\"", "The way in which images are drawn.";
    Any TERMINAL_TRUE_COLOR "terminal.trueColor", BoolOr(&["auto"]), "\"auto\"", "Use 24 bits of colour.";
    Any MARKDOWN_CODE_BLOCK_INDENT "markdown.codeBlockIndent", Text, "\"  \"", "Text before every line of a block of code.";
    Any MARKDOWN_MERMAID "markdown.mermaid", BoolOr(&["auto", "off", "text", "image"]), "null", "How diagrams are shown.";
    Any WARN_ANTHROPIC_EXTRA_USAGE "warnings.anthropicExtraUsage", Bool, "true", "Warn of extra usage that is billed. This version uses no such sign-in.";

    // What pi keeps for itself.
    Any LAST_CHANGELOG_VERSION "lastChangelogVersion", Text, "null", "The version whose changes pi has shown last; kept for pi.";
    Any COLLAPSE_CHANGELOG "collapseChangelog", Bool, "false", "Shorten the list of changes after an update. This version shows none.";
    Any EXTENSION_CHANGELOG_VERSIONS "extensionChangelogVersions", Table(&Text), "{}", "Versions of extensions whose changes pi has shown; kept for pi.";
    Any ENABLE_INSTALL_TELEMETRY "enableInstallTelemetry", Bool, "true", "Kept for pi: Fluzo reports nothing to anybody.";
    Any ENABLE_ANALYTICS "enableAnalytics", Bool, "false", "Kept for pi: Fluzo reports nothing to anybody.";
    Any TRACKING_ID "trackingId", Text, "null", "Kept for pi: Fluzo reports nothing to anybody.";
    Any DEVICE_ID "deviceId", Text, "null", "Kept for pi: Fluzo reports nothing to anybody.";
    User SELF_UPDATE_COMMAND "selfUpdateCommand", Texts, "null", "Kept for pi: Fluzo does not update itself.";
}

/// The setting with this key.
pub fn find(key: &str) -> Option<&'static SettingDef> {
    OPEN.iter().find(|def| def.key == key)
}
