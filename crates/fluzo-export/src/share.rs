//! Sharing a session: what is asked of the tool that publishes it, and what is said.

use fluzo_llm::BoxFuture;

/// Where shared sessions are looked at, unless the user names another place.
pub const VIEWER: &str = "https://pi.dev/session/";

/// Makes secret gists.
pub trait GistMaker: Send + Sync {
    /// Publishes `page` as a secret gist with one file of this `name`.
    ///
    /// Dropping the future aborts: the tool is ended, and nothing that was written for it
    /// is left on disk. Whether the gist was made by then is unknown.
    fn make<'a>(
        &'a self,
        name: &'a str,
        page: &'a (dyn PageSource + 'a),
    ) -> BoxFuture<'a, Result<Gist, ShareError>>;
}

/// Writes a page to where it is wanted.
pub trait PageSource: Sync {
    /// Writes the page.
    ///
    /// # Errors
    ///
    /// When the session cannot be read, or `out` refuses.
    fn write(&self, out: &mut dyn std::io::Write) -> Result<(), crate::ExportError>;
}

/// A gist that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gist {
    /// Its address.
    pub url: String,
    /// Its id.
    pub id: String,
}

/// Why a session was not shared.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The tool is missing.
    #[error("GitHub CLI (gh) is not installed. Install it from https://cli.github.com/")]
    NotInstalled,
    /// Nobody is logged in.
    #[error("GitHub CLI is not logged in. Run 'gh auth login' first.")]
    NotLoggedIn,
    /// The tool refused.
    #[error("Failed to create gist: {0}")]
    Refused(String),
    /// The tool named no gist.
    #[error("Failed to parse gist ID from gh output")]
    NoGist,
    /// The page could not be written.
    #[error(transparent)]
    Page(#[from] crate::ExportError),
}

impl Gist {
    /// The gist that the tool's `output` names; none when it names none.
    pub fn from_output(output: &str) -> Option<Self> {
        let lines = output.lines().map(str::trim);
        let url = lines.rev().find(|line| line.starts_with("https://"))?;
        let url = url.trim_end_matches('/');
        let id = url.rsplit('/').next().filter(|id| !id.is_empty())?;
        let is_id = id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        // A host alone is no gist.
        let has_path = url.strip_prefix("https://")?.contains('/');
        (is_id && has_path).then(|| Self {
            url: url.to_owned(),
            id: id.to_owned(),
        })
    }

    /// Where it can be looked at; `viewer` is the place that the user named.
    pub fn share_url(&self, viewer: Option<&str>) -> String {
        let viewer = viewer.filter(|viewer| !viewer.is_empty());
        format!("{}#{}", viewer.unwrap_or(VIEWER), self.id)
    }

    /// What the user is told.
    pub fn text(&self, viewer: Option<&str>) -> String {
        format!("Share URL: {}\nGist: {}", self.share_url(viewer), self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gists_in_output() {
        let gist = |url: &str, id: &str| {
            Some(Gist {
                url: url.to_owned(),
                id: id.to_owned(),
            })
        };
        let url = "https://gist.github.com/me/abc123";
        let rows = [
            (format!("{url}\n"), gist(url, "abc123")),
            (format!("- Creating gist\n{url}/\n\n"), gist(url, "abc123")),
            (String::new(), None),
            ("done".to_owned(), None),
            ("https://github.com".to_owned(), None),
            ("https://gist.github.com/a?b=<c>".to_owned(), None),
        ];
        for (output, want) in rows {
            assert_eq!(Gist::from_output(&output), want, "{output:?}");
        }
    }

    #[test]
    fn the_user_is_told_both_addresses() {
        let gist = Gist {
            url: "https://gist.github.com/me/abc".to_owned(),
            id: "abc".to_owned(),
        };
        let rows = [
            (None, "https://pi.dev/session/#abc"),
            (Some(""), "https://pi.dev/session/#abc"),
            (Some("https://v.test/"), "https://v.test/#abc"),
        ];
        for (viewer, url) in rows {
            let want = format!("Share URL: {url}\nGist: https://gist.github.com/me/abc");
            assert_eq!(gist.text(viewer), want);
        }
    }
}
