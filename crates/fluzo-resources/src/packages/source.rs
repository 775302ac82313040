//! Where a package comes from: the forms that a user may write, and when two of them mean the
//! same package.

use std::path::{Component, Path, PathBuf};

use fluzo_stdx::lexical;
use thiserror::Error;

/// Longer texts are no source.
const LONGEST: usize = 2048;
const SCHEMES: [&str; 4] = ["https", "http", "ssh", "git"];

/// Where a package comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum PackageSource {
    /// `npm:NAME[@VERSION]`.
    Npm {
        /// The package's name, its scope included.
        name: String,
        /// The version, range or tag that it is kept at.
        version: Option<String>,
    },
    /// `git:HOST/PATH[@REF]`, `git:USER@HOST:PATH[@REF]`, or an address.
    Git(GitSource),
    /// A file or folder of this machine, used in place; relative to the settings file that
    /// names it.
    Local(String),
}

/// A git repository.
#[derive(Clone, PartialEq, Eq)]
pub struct GitSource {
    /// What git is given.
    pub url: String,
    /// Its host, in small letters, with its port when it has one.
    pub host: String,
    /// The path on it, without `.git`; plain names divided by `/`.
    pub path: String,
    /// The branch, tag or commit that the package is kept at.
    pub reference: Option<String>,
}

/// Why a text is no source. No address is repeated, since it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SourceError {
    /// Nothing, or nothing but white space.
    #[error("the source is empty")]
    Empty,
    /// Too long, or with control characters.
    #[error("the source is too long or has control characters")]
    Unreadable,
    /// No name that npm takes.
    #[error("this is no npm package name; write `npm:NAME` or `npm:NAME@VERSION`")]
    NpmName,
    /// A version that npm would take for something else.
    #[error("the version after `@` is no version, range or tag")]
    NpmVersion,
    /// No repository.
    #[error("this is no git repository; write `git:HOST/USER/REPO` or an address")]
    Git,
    /// A part of the path, or of the host, that leads elsewhere.
    #[error("the path of the repository leads out of its folder")]
    Escapes,
    /// A reference that git would take for something else.
    #[error("the reference after `@` is no branch, tag or commit")]
    Reference,
    /// An address of a kind that packages are not fetched from.
    #[error("packages come from `npm:`, `git:`, `https:`, `http:`, `ssh:` or a folder")]
    Scheme,
}

impl PackageSource {
    /// Reads a source as users write it.
    ///
    /// # Errors
    ///
    /// When it is none, or when a program would take a part of it for an option or for a path
    /// elsewhere.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(SourceError::Empty);
        }
        if text.len() > LONGEST || text.chars().any(char::is_control) {
            return Err(SourceError::Unreadable);
        }
        if let Some(spec) = text.strip_prefix("npm:") {
            return npm(spec.trim());
        }
        if let Some(spec) = text.strip_prefix("git:")
            && !spec.starts_with("//")
        {
            return git_shorthand(spec.trim()).map(Self::Git);
        }
        match text.split_once("://") {
            Some((scheme, rest)) => address(scheme, rest).map(Self::Git),
            None => Ok(Self::Local(text.to_owned())),
        }
    }

    /// What is equal for two sources of one package: version and reference do not count.
    ///
    /// A local path is taken relative to `base`, and `~` is `home`.
    pub fn identity(&self, base: &Path, home: Option<&Path>) -> String {
        match self {
            Self::Npm { name, .. } => format!("npm:{name}"),
            Self::Git(git) => format!("git:{}/{}", git.host, git.path),
            Self::Local(path) => format!("local:{}", absolute(path, base, home).display()),
        }
    }

    /// Whether it is kept at one version, so that an update has nothing to look for.
    pub fn is_pinned(&self) -> bool {
        match self {
            Self::Npm { version, .. } => version.is_some(),
            Self::Git(git) => git.reference.is_some(),
            Self::Local(_) => false,
        }
    }

    /// `text` without the user name and password that the address holds, if any.
    pub fn without_secret(&self, text: &str) -> String {
        match self {
            Self::Git(git) => git.without_secret(text),
            Self::Npm { .. } | Self::Local(_) => text.to_owned(),
        }
    }

    /// Where the package lies when it is installed for `scope`; a local one lies where it is.
    pub fn place(&self, scope: &Base<'_>) -> PathBuf {
        match self {
            Self::Npm { name, .. } => scope.npm().join("node_modules").join(name),
            Self::Git(git) => scope.git().join(&git.host).join(&git.path),
            Self::Local(path) => absolute(path, scope.base, scope.home),
        }
    }
}

impl GitSource {
    /// `text` without the user name and password that the address holds, if any.
    pub fn without_secret(&self, text: &str) -> String {
        let Some(secret) = self.secret() else {
            return text.to_owned();
        };
        let text = text.replace(secret, "***");
        match secret.split_once(':') {
            Some((_, password)) if !password.is_empty() => text.replace(password, "***"),
            _ => text,
        }
    }

    /// Over HTTP the user's name may be a token.
    fn secret(&self) -> Option<&str> {
        let (scheme, rest) = self.url.split_once("://")?;
        let (authority, _) = rest.split_once('/')?;
        let (user, _) = authority.rsplit_once('@')?;
        let is_secret = user.contains(':') || scheme.starts_with("http");
        (is_secret && !user.is_empty()).then_some(user)
    }
}

impl std::fmt::Debug for PackageSource {
    /// Without user names and passwords of addresses.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Npm { name, version } => write!(f, "Npm({name}, {version:?})"),
            Self::Git(git) => git.fmt(f),
            Self::Local(path) => write!(f, "Local({path})"),
        }
    }
}

impl std::fmt::Debug for GitSource {
    /// Without user names and passwords of the address.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Git({}/{}, {:?})", self.host, self.path, self.reference)
    }
}

/// The folder whose settings name a package: the agent folder, or `.pi` of a project.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// The folder that holds `settings.json`, absolute.
    pub base: &'a Path,
    /// The user's home folder.
    pub home: Option<&'a Path>,
}

impl Base<'_> {
    /// The folder above `node_modules`.
    pub fn npm(&self) -> PathBuf {
        self.base.join("npm")
    }

    /// The folder of clones.
    pub fn git(&self) -> PathBuf {
        self.base.join("git")
    }
}

/// A path as written, absolute and without `.` and `..`; links are not looked at.
pub fn absolute(path: &str, base: &Path, home: Option<&Path>) -> PathBuf {
    let rest = path.strip_prefix("~/").or((path == "~").then_some(""));
    let joined = match (rest, home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => base.join(path),
    };
    lexical::plain(&joined)
}

/// `path` as it is written into a settings file in `base`; both absolute and plain.
pub fn relative(path: &Path, base: &Path) -> PathBuf {
    let same = path
        .components()
        .zip(base.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = base.components().skip(same).map(|_| Component::ParentDir);
    let mut text: PathBuf = up.chain(path.components().skip(same)).collect();
    if !text.starts_with("..") {
        text = Path::new(".").join(text);
    }
    text
}

fn npm(spec: &str) -> Result<PackageSource, SourceError> {
    // The `@` of a scope stands at the beginning.
    let at = spec.char_indices().skip(1).find(|(_, c)| *c == '@');
    let (name, version) = match at {
        Some((at, _)) => (&spec[..at], Some(&spec[at + 1..])),
        None => (spec, None),
    };
    if !is_npm_name(name) {
        return Err(SourceError::NpmName);
    }
    if version.is_some_and(|version| !is_npm_version(version)) {
        return Err(SourceError::NpmVersion);
    }
    Ok(PackageSource::Npm {
        name: name.to_owned(),
        version: version.map(str::to_owned),
    })
}

fn is_npm_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
        !part.is_empty() && part.chars().all(plain) && !part.starts_with(['.', '-', '_'])
    };
    let parts = match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/'),
        None => Some(("scope", name)),
    };
    // Folder names that npm itself uses.
    let is_taken = ["node_modules", "favicon.ico"].contains(&name);
    name.len() <= 214
        && !is_taken
        && parts.is_some_and(|(scope, name)| is_part(scope) && is_part(name))
}

/// What npm takes for an address, a file or an alias has a `:` or `/`.
fn is_npm_version(version: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " .-+^~<>=|*_".contains(c);
    !version.trim().is_empty() && !version.starts_with('-') && version.chars().all(plain)
}

fn git_shorthand(spec: &str) -> Result<GitSource, SourceError> {
    if spec.starts_with('-') {
        return Err(SourceError::Git);
    }
    if let Some((scheme, rest)) = spec.split_once("://") {
        return address(scheme, rest);
    }
    // `USER@HOST:PATH` has its colon before any slash.
    let colon = spec.find(':').filter(|at| !spec[..*at].contains('/'));
    if let Some(colon) = colon
        && let Some((user, host)) = spec[..colon].split_once('@')
    {
        let (path, reference) = split_reference(&spec[colon + 1..])?;
        if !is_word(user) {
            return Err(SourceError::Git);
        }
        let url = format!("{user}@{host}:{path}");
        return source(url, host, path, reference);
    }
    let (host, rest) = spec.split_once('/').ok_or(SourceError::Git)?;
    let (path, reference) = split_reference(rest)?;
    source(format!("https://{host}/{path}"), host, path, reference)
}

fn address(scheme: &str, rest: &str) -> Result<GitSource, SourceError> {
    if !SCHEMES.contains(&scheme) {
        return Err(SourceError::Scheme);
    }
    let (authority, rest) = rest.split_once('/').ok_or(SourceError::Git)?;
    let (path, reference) = split_reference(rest)?;
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", authority),
    };
    if user.starts_with('-') {
        return Err(SourceError::Git);
    }
    source(
        format!("{scheme}://{authority}/{path}"),
        host,
        path,
        reference,
    )
}

fn split_reference(rest: &str) -> Result<(&str, Option<&str>), SourceError> {
    let Some((path, reference)) = rest.split_once('@') else {
        return Ok((rest, None));
    };
    if is_reference(reference) {
        Ok((path, Some(reference)))
    } else {
        Err(SourceError::Reference)
    }
}

/// The names that `git check-ref-format` takes, and fewer.
fn is_reference(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+@".contains(c) || !c.is_ascii();
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    text.len() <= 255
        && text.chars().all(plain)
        && text.split('/').all(is_part)
        && !text.starts_with(['-', '@'])
        && !text.ends_with('.')
        && !text.contains("..")
}

fn source(
    url: String,
    host: &str,
    path: &str,
    reference: Option<&str>,
) -> Result<GitSource, SourceError> {
    let host = host.to_ascii_lowercase();
    if !is_host(&host) {
        return Err(SourceError::Git);
    }
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let mut parts = path.split('/');
    // A folder name of git's own would make a repository of the folder above.
    let leads_away = |part: &str| [".", "..", ".git"].contains(&part.to_ascii_lowercase().as_str());
    if path.is_empty() || path.contains(['\\', '?', '#', '%', ':']) {
        return Err(SourceError::Git);
    }
    if parts.any(|part| part.is_empty() || part.starts_with('-') || leads_away(part)) {
        return Err(SourceError::Escapes);
    }
    Ok(GitSource {
        url,
        host,
        path: path.to_owned(),
        reference: reference.map(str::to_owned),
    })
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let is_port = |port: &str| !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
    let is_label = |label: &str| is_word(label) && !label.starts_with('-');
    port.is_none_or(is_port) && name.split('.').all(is_label)
}

fn is_word(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    !text.is_empty() && text.chars().all(plain) && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match PackageSource::parse(text) {
            Ok(PackageSource::Npm { name, version }) => {
                format!("npm {name} {}", version.unwrap_or_default())
            }
            Ok(PackageSource::Git(git)) => format!(
                "git {} {} {} {}",
                git.url,
                git.host,
                git.path,
                git.reference.unwrap_or_default()
            ),
            Ok(PackageSource::Local(path)) => format!("local {path}"),
            Err(error) => format!("{error:?}"),
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(shown(text).trim_end(), expected, "{text}");
    }

    #[test]
    fn the_forms_of_sources() {
        check("npm:foo", "npm foo");
        check("npm:@scope/foo@^1.2.3", "npm @scope/foo ^1.2.3");
        check("npm:foo@latest", "npm foo latest");
        check(
            "git:github.com/u/r",
            "git https://github.com/u/r github.com u/r",
        );
        check(
            "git:GitHub.com/u/r.git@v1",
            "git https://GitHub.com/u/r.git github.com u/r v1",
        );
        check("git:git@host:u/r@main", "git git@host:u/r host u/r main");
        check(
            "git:https://host/u/r@a/b",
            "git https://host/u/r host u/r a/b",
        );
        check(
            "https://host:8443/g/u/r",
            "git https://host:8443/g/u/r host:8443 g/u/r",
        );
        check(
            "https://me:pw@host/u/r@v2",
            "git https://me:pw@host/u/r host u/r v2",
        );
        check(
            "ssh://git@host/u/r@1f0e",
            "git ssh://git@host/u/r host u/r 1f0e",
        );
        check("git://host/u/r", "git git://host/u/r host u/r");
        check("./pkg", "local ./pkg");
        check(" ~/pkg ", "local ~/pkg");
        check("github.com/u/r", "local github.com/u/r");
        check("@scope/x", "local @scope/x");
    }

    #[test]
    fn what_leads_elsewhere_or_is_an_option_is_refused() {
        let rows = [
            ("", "Empty"),
            ("a\nb", "Unreadable"),
            ("npm:", "NpmName"),
            ("npm:../evil", "NpmName"),
            ("npm:-g", "NpmName"),
            ("npm:@a/../b", "NpmName"),
            ("npm:@/b", "NpmName"),
            ("npm:.bin", "NpmName"),
            ("npm:node_modules", "NpmName"),
            ("npm:a b", "NpmName"),
            ("npm:foo@", "NpmVersion"),
            ("npm:foo@file:../x", "NpmVersion"),
            ("npm:foo@--registry=x", "NpmVersion"),
            ("git:--upload-pack=touch /tmp/x", "Git"),
            ("git:-x/u/r", "Git"),
            ("git:-u@host:r", "Git"),
            ("git:github.com", "Git"),
            ("git:host/../../etc", "Escapes"),
            ("git:host/u/..", "Escapes"),
            ("git:host/u//r", "Escapes"),
            ("git:host/u/.git/x", "Escapes"),
            ("git:../x/r", "Git"),
            ("git:host/-u/r", "Escapes"),
            ("git:host/u/r%2f..", "Git"),
            ("git:host/u/r\\..\\x", "Git"),
            ("git:host/u/r@-x", "Reference"),
            ("git:host/u/r@a..b", "Reference"),
            ("git:host/u/r@", "Reference"),
            ("git:host/u/r@a b", "Reference"),
            ("ssh://-oProxyCommand=x/u/r", "Git"),
            ("ssh://-oX@host/u/r", "Git"),
            ("https://host/", "Git"),
            ("https://host", "Git"),
            ("file:///etc", "Scheme"),
            ("git:file:///etc/x", "Scheme"),
            ("ext://sh/x", "Scheme"),
            ("git:ext::sh -c x", "Git"),
        ];
        for (text, expected) in rows {
            check(text, expected);
        }
        check(&"x".repeat(LONGEST + 1), "Unreadable");
    }

    #[test]
    fn one_package_has_one_identity() {
        let same = |a: &str, b: &str| {
            let id = |text: &str| {
                PackageSource::parse(text)
                    .unwrap()
                    .identity(Path::new("/b/c"), Some(Path::new("/home/u")))
            };
            (id(a) == id(b)).then(|| id(a))
        };
        let rows = [
            ("npm:foo", "npm:foo@1", Some("npm:foo")),
            (
                "git:h.com/u/r",
                "https://h.com/u/r.git@v1",
                Some("git:h.com/u/r"),
            ),
            (
                "git:git@h.com:u/r",
                "ssh://git@H.com/u/r",
                Some("git:h.com/u/r"),
            ),
            ("./x/../y", "../c/y", Some("local:/b/c/y")),
            ("~/y", "/home/u/y", Some("local:/home/u/y")),
            ("npm:foo", "foo", None),
            ("git:h.com/u/r", "git:h.com:1/u/r", None),
        ];
        for (a, b, expected) in rows {
            assert_eq!(same(a, b).as_deref(), expected, "{a} {b}");
        }
    }

    #[test]
    fn places_lie_below_the_scope_and_local_ones_stay() {
        let scope = Base {
            base: Path::new("/a/agent"),
            home: None,
        };
        let rows = [
            ("npm:@s/n@1", "/a/agent/npm/node_modules/@s/n"),
            ("git:h.com/u/r@v1", "/a/agent/git/h.com/u/r"),
            ("../x", "/a/x"),
        ];
        for (text, place) in rows {
            let source = PackageSource::parse(text).unwrap();
            assert_eq!(source.place(&scope), Path::new(place), "{text}");
        }
    }

    #[test]
    fn a_path_is_written_relative_to_its_settings() {
        let rows = [
            ("/a/b/c", "/a/x/y", "../../b/c"),
            ("/a/b", "/a", "./b"),
            ("/a", "/a", "."),
            ("/a", "/a/b", ".."),
        ];
        for (path, base, expected) in rows {
            let text = relative(Path::new(path), Path::new(base));
            assert_eq!(text, Path::new(expected), "{path} {base}");
            let back = absolute(&text.to_string_lossy(), Path::new(base), None);
            assert_eq!(back, Path::new(path));
        }
    }

    #[test]
    fn a_password_is_in_no_debug_text() {
        let source = PackageSource::parse("https://me:hunter2@host/u/r").unwrap();
        assert!(!format!("{source:?}").contains("hunter2"));
        let told = source.without_secret("cannot reach https://me:hunter2@host/u/r (hunter2)");
        assert_eq!(told, "cannot reach https://***@host/u/r (***)");
        let token = PackageSource::parse("https://token@host/u/r").unwrap();
        assert_eq!(
            token.without_secret("https://token@host/u/r"),
            "https://***@host/u/r"
        );
        let user = PackageSource::parse("ssh://git@host/u/r").unwrap();
        assert_eq!(
            user.without_secret("ssh://git@host/u/r"),
            "ssh://git@host/u/r"
        );
    }
}
