//! `fluzo pi install`, `remove`, `update` and `list`, with a stand-in for npm and real git over
//! repositories of this machine.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Ran, Stage, fake, signal};

/// Takes the arguments of npm, keeps them, and unpacks a package of the folder beside itself.
/// Runs its script unless told not to.
const NPM: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/log"
command=$1; spec=; prefix=; scripts=yes
shift
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) prefix=$2; shift ;;
    --ignore-scripts) scripts=no ;;
    -*) ;;
    *) [ -n "$spec" ] || spec=$1 ;;
  esac
  shift
done
[ -e "$prefix/.npmrc" ] && touch "$here/npmrc-was-read"
name=$(echo "$spec" | sed 's/\(.\)@[^/]*$/\1/')
if [ "$command" = view ]; then cat "$here/$name.version"; exit; fi
[ -e "$here/broken" ] && { mkdir -p "$prefix/node_modules/$name"; echo "npm error E404 not found"; exit 1; }
if [ -z "$spec" ]; then mkdir -p "$prefix/node_modules/need"; exit; fi
[ -e "$here/stand-still" ] && { touch "$here/stands"; sleep 1000; }
mkdir -p "$prefix/node_modules/$name"
tar -xzf "$here/$name.tgz" -C "$prefix/node_modules/$name" --strip-components=1 || exit 1
if [ $scripts = yes ] && [ -e "$prefix/node_modules/$name/run.sh" ]; then sh "$prefix/node_modules/$name/run.sh"; fi
"#;

/// A home with a registry, git repositories and a sentinel that hostile code would make.
struct Shop {
    stage: Stage,
}

impl Shop {
    fn new() -> Self {
        let stage = Stage::new();
        let npm = stage.write("shop/npm", NPM);
        std::fs::set_permissions(&npm, std::fs::Permissions::from_mode(0o755)).unwrap();
        stage.settings(&json!({"npmCommand": [npm], "theme": "dark"}));
        // A template with a hook, and repositories at an address.
        let hook = stage.write(
            "home/template/hooks/post-checkout",
            "#!/bin/sh\ntouch \"$HOME/../sentinel\"\n",
        );
        std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        let config = format!(
            "[user]\n\tname = T\n\temail = t@example.invalid\n[init]\n\ttemplateDir = {}\n\tdefaultBranch = main\n[url \"file://{}/\"]\n\tinsteadOf = https://git.test/\n",
            stage.path("home/template").display(),
            stage.path("repos").display(),
        );
        stage.write("home/.gitconfig", config);
        stage.models(&json!({"providers": {"fake": fake("http://127.0.0.1:1/v1")}}));
        Self { stage }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.stage.path(name)
    }

    /// Puts a package into the registry. Its script makes the sentinel.
    fn publish(&self, name: &str, version: &str, scripts: bool) {
        let folder = format!("shop/make/{name}/package");
        let script = if scripts {
            json!({"postinstall": "sh run.sh"})
        } else {
            json!({})
        };
        let manifest = json!({"name": name, "version": version, "scripts": script});
        self.stage
            .write(&format!("{folder}/package.json"), manifest.to_string());
        self.stage.write(
            &format!("{folder}/skills/{version}/SKILL.md"),
            "---\ndescription: d\n---\n",
        );
        let sentinel = self.path("sentinel");
        self.stage.write(
            &format!("{folder}/run.sh"),
            format!("touch '{}'\n", sentinel.display()),
        );
        let archive = self.path("shop").join(format!("{name}.tgz"));
        std::fs::create_dir_all(archive.parent().unwrap()).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(archive).arg("-C");
        tar.arg(self.path(&format!("shop/make/{name}")))
            .arg("package");
        assert!(tar.status().unwrap().success());
        self.stage
            .write(&format!("shop/{name}.version"), format!("\"{version}\"\n"));
    }

    fn git(&self, folder: &Path, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(folder);
        git.env_clear().env("HOME", self.path("home"));
        git.env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("GIT_TEMPLATE_DIR", "");
        let output = git.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Commits files to the repository `u/r`, made if need be, and returns the commit.
    fn commit(&self, files: &[(&str, &str)]) -> String {
        let work = self.path("work");
        let bare = self.path("repos").join("u/r");
        if !work.exists() {
            std::fs::create_dir_all(&work).unwrap();
            std::fs::create_dir_all(&bare).unwrap();
            self.git(&bare, &["init", "--quiet", "--bare"]);
            self.git(&work, &["init", "--quiet"]);
        }
        for (name, text) in files {
            self.stage.write(&format!("work/{name}"), text);
        }
        self.git(&work, &["add", "-A"]);
        self.git(&work, &["commit", "--quiet", "-m", "x"]);
        let target = bare.display().to_string();
        self.git(&work, &["push", "--quiet", &target, "main"]);
        self.git(&work, &["rev-parse", "HEAD"])
    }

    fn push(&self, what: &str) {
        let target = self.path("repos").join("u/r").display().to_string();
        self.git(&self.path("work"), &["push", "--quiet", &target, what]);
    }

    fn pi(&self, line: &str) -> Ran {
        self.stage.pi(&line.split(' ').collect::<Vec<_>>())
    }

    fn packages(&self, file: &str) -> Value {
        let text = std::fs::read_to_string(self.path(file)).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["packages"].clone()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("shop/log")).unwrap_or_default()
    }

    #[track_caller]
    fn nothing_ran(&self) {
        assert!(!self.path("sentinel").exists(), "code of a package ran");
    }

    /// What is left of unfinished work.
    fn left(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.starts_with(".fluzo-") && name != ".fluzo-lock")
            .collect()
    }
}

#[test]
fn a_package_of_npm_is_installed_listed_updated_and_removed() {
    let shop = Shop::new();
    shop.publish("a", "1.0.0", false);
    shop.pi("install npm:a")
        .is(0, "Installing npm:a...\nInstalled npm:a\n", "");
    let place = shop.path("agent/npm/node_modules/a");
    assert!(place.join("skills/1.0.0/SKILL.md").is_file());
    let settings = std::fs::read_to_string(shop.path("agent/settings.json")).unwrap();
    assert!(
        settings.contains("\"theme\"") && settings.contains("\"npm:a\""),
        "{settings}"
    );
    let listed = format!("User packages:\n  npm:a\n    {}\n", place.display());
    shop.pi("list").is(0, &listed, "");
    let arguments = shop.log();
    for option in ["--ignore-scripts", "--no-audit", "--legacy-peer-deps"] {
        assert!(arguments.contains(option), "{arguments}");
    }
    // The model hears of its skill.
    let prompt = shop.pi("--print-system-prompt").out();
    assert!(prompt.contains("<name>1.0.0</name>"), "{prompt}");
    // Nothing newer, then something.
    shop.pi("update --extensions")
        .is(0, "Updated packages\n", "");
    assert!(place.join("skills/1.0.0").exists());
    shop.publish("a", "1.1.0", false);
    shop.pi("update npm:a@9")
        .is(0, "Fetched npm:a\nUpdated npm:a@9\n", "");
    assert!(place.join("skills/1.1.0").exists());
    // Installed again at a version: one entry, and no update any more.
    shop.pi("install npm:a@1.1.0");
    assert_eq!(shop.packages("agent/settings.json"), json!(["npm:a@1.1.0"]));
    let before = shop.log();
    shop.pi("update --extensions")
        .is(0, "Updated packages\n", "");
    assert_eq!(shop.log(), before);
    shop.pi("remove npm:a")
        .is(0, "Removing npm:a...\nRemoved npm:a\n", "");
    assert!(!place.exists());
    assert_eq!(shop.packages("agent/settings.json"), json!([]));
    shop.pi("list").is(0, "No packages installed.\n", "");
    assert!(shop.left("agent/npm").is_empty());
}

#[test]
fn scripts_run_only_with_the_consent_of_the_user() {
    let shop = Shop::new();
    shop.publish("@s/wild", "1.0.0", true);
    let ran = shop.pi("install npm:@s/wild");
    ran.is(
        0,
        "Installing npm:@s/wild...\nInstalled npm:@s/wild\n",
        "Warning: install scripts did not run: @s/wild\nhint: if you trust them: fluzo pi install npm:@s/wild --allow-scripts\n",
    );
    shop.nothing_ran();
    shop.publish("@s/wild", "2.0.0", true);
    let ran = shop.pi("update --extensions");
    assert!(
        ran.err()
            .ends_with("fluzo pi update npm:@s/wild --force --allow-scripts\n"),
        "{}",
        ran.err()
    );
    shop.nothing_ran();
    // Neither the settings nor the files of a project consent.
    shop.stage
        .write("project/.pi/npm/.npmrc", "ignore-scripts=false\n");
    shop.stage.write(
        "project/.pi/settings.json",
        json!({"allowScripts": true}).to_string(),
    );
    let ran = shop.pi("install npm:@s/wild -l --approve");
    assert_eq!(ran.code(), 0, "{}", ran.err());
    shop.nothing_ran();
    assert!(!shop.path("shop/npmrc-was-read").exists());
    shop.pi("install npm:@s/wild --allow-scripts").is(
        0,
        "Installing npm:@s/wild...\nInstalled npm:@s/wild\n",
        "",
    );
    assert!(shop.path("sentinel").exists());
}

#[test]
fn a_package_of_git_follows_its_branch_or_stays_at_its_reference() {
    let shop = Shop::new();
    let skill = "---\ndescription: d\n---\n";
    shop.commit(&[("skills/one/SKILL.md", skill)]);
    shop.git(&shop.path("work"), &["tag", "-a", "v1", "-m", "x"]);
    shop.push("v1");
    let ran = shop.pi("install git:git.test/u/r");
    ran.is(
        0,
        "Installing git:git.test/u/r...\nInstalled git:git.test/u/r\n",
        "",
    );
    let place = shop.path("agent/git/git.test/u/r");
    assert!(place.join("skills/one/SKILL.md").is_file());
    let second = shop.commit(&[("skills/two/SKILL.md", skill)]);
    shop.pi("update https://git.test/u/r.git").is(
        0,
        "Fetched git:git.test/u/r\nUpdated https://git.test/u/r.git\n",
        "",
    );
    assert!(place.join("skills/two/SKILL.md").is_file());
    shop.pi("update git:git.test/u/r")
        .is(0, "Updated git:git.test/u/r\n", "");
    // At a tag, a commit, a branch.
    shop.pi("install git:git.test/u/r@v1");
    assert!(!place.join("skills/two").exists());
    assert_eq!(
        shop.packages("agent/settings.json"),
        json!(["git:git.test/u/r@v1"])
    );
    shop.pi("update --extensions")
        .is(0, "Updated packages\n", "");
    assert!(!place.join("skills/two").exists());
    shop.pi(&format!("install git:git.test/u/r@{}", &second[..10]));
    assert!(place.join("skills/two").exists());
    shop.pi("update --extensions")
        .is(0, "Updated packages\n", "");
    shop.git(&shop.path("work"), &["branch", "next"]);
    shop.push("next");
    shop.pi("install git:git.test/u/r@next");
    shop.commit(&[("skills/three/SKILL.md", skill)]);
    shop.push("main:next");
    shop.pi("update").is(
        0,
        "Fetched git:git.test/u/r@next\nUpdated packages\n",
        &shop.pi("update").err(),
    );
    assert!(place.join("skills/three").exists());
    let ran = shop.pi("install git:git.test/u/r@nowhere");
    ran.is(
        1,
        "Installing git:git.test/u/r@nowhere...\n",
        "Error: the repository has no branch, tag or commit `nowhere`\n",
    );
    assert!(place.join("skills/three").exists());
    shop.pi("uninstall git:git.test/u/r").is(
        0,
        "Removing git:git.test/u/r...\nRemoved git:git.test/u/r\n",
        "",
    );
    assert!(!shop.path("agent/git/git.test").exists());
    assert!(shop.left("agent/git").is_empty());
    shop.nothing_ran();
}

#[test]
fn what_a_package_of_git_needs_is_installed_without_its_configuration() {
    let shop = Shop::new();
    let manifest = json!({"name": "x", "dependencies": {"need": "1"}, "scripts": {"install": "touch ../sentinel"}});
    shop.commit(&[
        ("package.json", &manifest.to_string()),
        (".npmrc", "registry=https://evil.invalid/${HOME}\n"),
    ]);
    let ran = shop.pi("install git:git.test/u/r");
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(
        ran.err().contains("install scripts did not run: x\n"),
        "{}",
        ran.err()
    );
    let place = shop.path("agent/git/git.test/u/r");
    assert!(place.join("node_modules/need").is_dir() && place.join(".npmrc").is_file());
    assert!(!shop.path("shop/npmrc-was-read").exists());
    assert!(shop.log().contains("--ignore-scripts"));
    shop.nothing_ran();
}

#[test]
fn a_local_package_is_used_in_place() {
    let shop = Shop::new();
    shop.stage.write("project/tools/skills/a/SKILL.md", "");
    shop.pi("install ./tools")
        .is(0, "Installing ./tools...\nInstalled ./tools\n", "");
    assert_eq!(
        shop.packages("agent/settings.json"),
        json!(["../project/tools"])
    );
    shop.pi("install -l ./tools");
    assert_eq!(
        shop.packages("project/.pi/settings.json"),
        json!(["../tools"])
    );
    let place = shop.path("project/tools");
    let listed = format!(
        "User packages:\n  ../project/tools\n    {0}\n\nProject packages:\n  ../tools\n    {0}\n",
        place.display()
    );
    let ran = shop.pi("list --approve");
    ran.is(0, &listed, "");
    shop.pi("remove tools")
        .is(0, "Removing tools...\nRemoved tools\n", "");
    shop.pi("remove ./tools -l")
        .is(0, "Removing ./tools...\nRemoved ./tools\n", "");
    assert!(place.join("skills/a/SKILL.md").is_file());
    assert_eq!(shop.packages("project/.pi/settings.json"), json!([]));
}

#[test]
fn entries_with_filters_and_missing_packages_are_marked() {
    let shop = Shop::new();
    shop.stage
        .write("agent/npm/node_modules/a/package.json", "{}");
    let missing = shop.path("agent/git/git.test/u/r");
    shop.stage.settings(&json!({"packages": [
        {"source": "npm:a", "skills": []}, "git:git.test/u/r", "npm:../x",
    ]}));
    let listed = format!(
        "User packages:\n  npm:a (filtered)\n    {}\n  git:git.test/u/r\n    not installed: {}\n  npm:../x\n    cannot be understood\n",
        shop.path("agent/npm/node_modules/a").display(),
        missing.display(),
    );
    shop.pi("list").is(0, &listed, "");
    // A start names the command, and fetches nothing.
    let ran = shop.pi("--print-system-prompt");
    let told = "Warning: packages in the settings are not installed: git:git.test/u/r\nhint: `fluzo pi update --extensions` installs them\n";
    assert!(ran.err().contains(told), "{}", ran.err());
    assert!(ran.err().contains("entry 3 of `packages`"), "{}", ran.err());
    assert!(!missing.exists() && shop.log().is_empty());
    // Packages of a project that is not trusted count neither there nor in an update.
    shop.stage.settings(&json!({}));
    shop.stage.write(
        "project/.pi/settings.json",
        json!({"packages": ["npm:b"]}).to_string(),
    );
    let ran = shop.pi("--print-system-prompt");
    assert!(!ran.err().contains("npm:b"), "{}", ran.err());
    let ran = shop.pi("update --extensions");
    assert!(
        ran.err()
            .contains("packages of this project were passed over"),
        "{}",
        ran.err()
    );
    assert!(shop.log().is_empty());
}

#[test]
fn what_cannot_be_done_is_told() {
    let shop = Shop::new();
    let missing = format!(
        "Error: Path does not exist: {}\n",
        shop.path("project/nowhere").display()
    );
    let rows = [
        ("list", 0, "No packages installed.\n", ""),
        (
            "install",
            1,
            "",
            "Missing install source.\nUsage: pi install <source> [-l]\n",
        ),
        (
            "remove npm:zzz",
            1,
            "",
            "No matching package found for npm:zzz\n",
        ),
        (
            "uninstall ./zzz",
            1,
            "",
            "No matching package found for ./zzz\n",
        ),
        (
            "update npm:zzz",
            1,
            "",
            "No matching package found for npm:zzz\n",
        ),
        ("install ./nowhere", 1, "", missing.as_str()),
        (
            "install a b",
            1,
            "",
            "Unexpected argument b.\nUsage: pi install <source> [-l]\n",
        ),
        (
            "list --local",
            1,
            "",
            "Unknown option --local for \"list\".\nUsage: pi list\n",
        ),
        (
            "update --extension",
            1,
            "",
            "Missing value for --extension.\n",
        ),
        (
            "install git:../../etc/x",
            1,
            "",
            "Error: this is no git repository; write `git:HOST/USER/REPO` or an address\n",
        ),
        (
            "install git:h/../../../x",
            1,
            "",
            "Error: the path of the repository leads out of its folder\n",
        ),
        (
            "install npm:../x",
            1,
            "",
            "Error: this is no npm package name; write `npm:NAME` or `npm:NAME@VERSION`\n",
        ),
        (
            "install ext::sh://x",
            1,
            "",
            "Error: packages come from `npm:`, `git:`, `https:`, `http:`, `ssh:` or a folder\n",
        ),
    ];
    for (line, code, out, err) in rows {
        shop.pi(line).is(code, out, err);
    }
    for line in ["install --help", "list -h", "update --help"] {
        let ran = shop.pi(line);
        assert!(
            ran.code() == 0 && ran.out().contains("Usage: fluzo pi "),
            "{}",
            ran.out()
        );
    }
    assert!(!shop.path("agent/npm").exists() && !shop.path("agent/git").exists());
}

#[test]
fn what_fails_leaves_nothing_and_shows_what_the_program_said() {
    let shop = Shop::new();
    shop.stage.write("shop/broken", "");
    let ran = shop.pi("install npm:a");
    assert_eq!(ran.code(), 1);
    assert!(
        ran.err()
            .contains("failed (exit code 1)\n  npm error E404 not found\n"),
        "{}",
        ran.err()
    );
    assert!(shop.left("agent/npm").is_empty());
    assert!(!shop.path("agent/npm/node_modules").exists());
    assert_eq!(shop.packages("agent/settings.json"), Value::Null);
    // No address with a password is shown, and no settings are written.
    shop.commit(&[("a", "")]);
    std::fs::remove_dir_all(shop.path("repos/u/r/objects")).unwrap();
    let ran = shop.pi("install https://me:hunter2@git.test/u/r");
    assert_eq!(ran.code(), 1);
    let shown = ran.out() + &ran.err();
    assert!(
        shown.contains("https://***@git.test/u/r") && !shown.contains("hunter2"),
        "{shown}"
    );
    assert!(shop.left("agent/git").is_empty());
    // A broken file of settings is told before anything is fetched, and kept.
    shop.stage.write("agent/settings.json", "{ broken");
    let before = shop.log();
    let ran = shop.pi("install npm:a");
    assert!(
        ran.code() == 1 && ran.out().is_empty() && ran.err().contains("settings.json"),
        "{}",
        ran.err()
    );
    assert_eq!(shop.log(), before);
    assert_eq!(
        std::fs::read_to_string(shop.path("agent/settings.json")).unwrap(),
        "{ broken"
    );
}

#[test]
fn the_program_tells_how_it_is_updated() {
    let shop = Shop::new();
    for line in [
        "update self",
        "update pi",
        "update --self",
        "update --self --force",
    ] {
        let ran = shop.pi(line);
        assert_eq!((ran.code(), ran.out().as_str()), (1, ""), "{line}");
        let text = format!(
            "fluzo {} does not update itself: ",
            env!("CARGO_PKG_VERSION")
        );
        assert!(ran.err().starts_with(&text), "{}", ran.err());
    }
    let ran = shop.pi("update");
    assert_eq!((ran.code(), ran.out().as_str()), (0, "Updated packages\n"));
    assert!(ran.err().contains("does not update itself"));
}

#[test]
fn links_in_a_project_lead_no_package_elsewhere() {
    let shop = Shop::new();
    shop.publish("a", "1.0.0", false);
    shop.stage.write("home/precious/a/keep", "");
    std::fs::create_dir_all(shop.path("project/.pi/npm")).unwrap();
    symlink(
        shop.path("home/precious"),
        shop.path("project/.pi/npm/node_modules"),
    )
    .unwrap();
    shop.stage.write(
        "project/.pi/settings.json",
        json!({"packages": ["npm:a"]}).to_string(),
    );
    for line in [
        "install npm:a -l",
        "remove npm:a -l",
        "update npm:a --approve --force",
    ] {
        let ran = shop.pi(line);
        assert_eq!(ran.code(), 1, "{line}");
        assert!(
            ran.err().contains("is a link; packages of a project"),
            "{}",
            ran.err()
        );
    }
    assert!(shop.path("home/precious/a/keep").exists());
}

#[test]
fn two_installs_at_once_lose_nothing() {
    let shop = Shop::new();
    let names = ["a", "b", "c", "d"];
    for name in names {
        shop.publish(name, "1.0.0", false);
    }
    let start = |source: &str| {
        let mut command = shop.stage.command(&["pi", "install", source]);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // The same package twice as well.
    let sources = names.iter().chain(&["a"]).map(|name| format!("npm:{name}"));
    let running: Vec<_> = sources.map(|source| start(&source)).collect();
    for child in running {
        let ran = Ran(child.wait_with_output().unwrap());
        assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
    }
    let mut written: Vec<String> =
        serde_json::from_value(shop.packages("agent/settings.json")).unwrap();
    written.sort();
    assert_eq!(written, ["npm:a", "npm:b", "npm:c", "npm:d"]);
    for name in names {
        let place = shop.path("agent/npm/node_modules").join(name);
        assert!(place.join("skills/1.0.0/SKILL.md").is_file(), "{name}");
    }
    assert!(shop.left("agent/npm").is_empty());
}

#[test]
fn an_interrupted_install_is_undone() {
    let shop = Shop::new();
    shop.publish("a", "1.0.0", false);
    shop.stage.write("shop/stand-still", "");
    let mut command = shop.stage.command(&["pi", "install", "npm:a"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !shop.path("shop/stands").exists() {
        std::thread::yield_now();
    }
    signal(child.id(), "INT");
    assert_eq!(Ran(child.wait_with_output().unwrap()).code(), 130);
    assert!(shop.left("agent/npm").is_empty());
    assert!(!shop.path("agent/npm/node_modules").exists());
}
