//! The HTTP client of the program: its proxies, certificate authorities and limits, out of
//! environment and settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fluzo_providers::{
    CallLimits, ExtraRoots, HttpClient, HttpConfig, LimitPolicy, Limits, ProxyConfig, RootFile,
};
use fluzo_settings::{Settings, key};

use crate::surroundings::Surroundings;

/// Variables that name a file of certificate authorities.
const ROOT_VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"];

/// The one client. Nothing is read or connected before its first request.
pub(crate) fn client(surroundings: &Surroundings, settings: &Settings) -> Arc<HttpClient> {
    let files = root_files(surroundings, settings);
    Arc::new(HttpClient::with_config(HttpConfig {
        user_agent: concat!("fluzo/", env!("CARGO_PKG_VERSION")).to_owned(),
        proxies: ProxyConfig::from_variables(|name| surroundings.variable(name).map(str::to_owned)),
        extra_roots: ExtraRoots::from_files(Arc::new(move || {
            files
                .iter()
                .map(|(path, origin)| read(path, origin))
                .collect()
        })),
    }))
}

/// Limits of requests to models. Limits that are set take the place of the defaults.
pub(crate) fn limits(settings: &Settings) -> LimitPolicy {
    let open = LimitPolicy::open();
    LimitPolicy {
        local: with_settings(settings, open.local),
        remote: with_settings(settings, open.remote),
    }
}

/// `default` with the limits in time that are set for its section.
pub(crate) fn call_limits(settings: &Settings, default: CallLimits) -> CallLimits {
    let section = default.section;
    let set = |limit: &str, default: Duration| {
        let set = settings.number(&format!("{section}.{limit}TimeoutMs"));
        set.map_or(default, Duration::from_millis)
    };
    CallLimits {
        connect: set("connect", default.connect),
        total: set("total", default.total),
        ..default
    }
}

fn with_settings(settings: &Settings, default: Limits) -> Limits {
    let ms = |key: &str, default: Option<Duration>| {
        settings.number(key).map(Duration::from_millis).or(default)
    };
    // The one of the reference counts where it is set; zero is none.
    let idle = match settings.number(key::HTTP_IDLE_TIMEOUT_MS) {
        Some(limit) if settings.is_set(key::HTTP_IDLE_TIMEOUT_MS) => {
            (limit > 0).then(|| Duration::from_millis(limit))
        }
        _ => default.idle,
    };
    // A limit for requests alone comes before the one for everything from a provider.
    let total_setting = match settings.number(key::RETRY_PROVIDER_TIMEOUT_MS) {
        Some(_) => key::RETRY_PROVIDER_TIMEOUT_MS,
        None => key::TOTAL_TIMEOUT_MS,
    };
    Limits {
        connect: ms(key::CONNECT_TIMEOUT_MS, default.connect),
        first_output: ms(key::FIRST_OUTPUT_TIMEOUT_MS, default.first_output),
        idle: ms(key::IDLE_TIMEOUT_MS, idle),
        total: ms(total_setting, default.total),
        total_setting,
        ..default
    }
}

/// Paths of authority files, each with what named it.
fn root_files(surroundings: &Surroundings, settings: &Settings) -> Vec<(PathBuf, String)> {
    let of_variables = ROOT_VARIABLES.iter().filter_map(|name| {
        let path = surroundings.variable(name)?;
        Some((surroundings.path(path), (*name).to_owned()))
    });
    let set = settings.text(key::CA_FILES).unwrap_or_default();
    let of_setting = std::env::split_paths(set)
        .filter(|path| !path.as_os_str().is_empty())
        .map(|path| {
            let path = surroundings.path(&path.to_string_lossy());
            (path, format!("setting `{}`", key::CA_FILES))
        });
    of_variables.chain(of_setting).collect()
}

fn read(path: &Path, origin: &str) -> Result<RootFile, String> {
    let name = format!("`{}` ({origin})", path.display());
    match std::fs::read(path) {
        Ok(content) => Ok(RootFile { name, content }),
        Err(error) => Err(format!(
            "the certificate file {name} cannot be read: {error}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_limit_for_silence_is_the_own_one_then_that_of_the_reference() {
        let default = LimitPolicy::open().remote.idle;
        let ms = |ms| Some(Duration::from_millis(ms));
        let rows = [
            (json!({}), default),
            (json!({"httpIdleTimeoutMs": 7}), ms(7)),
            (json!({"httpIdleTimeoutMs": 0}), None),
            (json!({"httpIdleTimeoutMs": "disabled"}), None),
            (json!({"httpIdleTimeoutMs": "soon"}), default),
            (
                json!({"httpIdleTimeoutMs": 7, "provider": {"idleTimeoutMs": 9}}),
                ms(9),
            ),
        ];
        for (layer, expected) in rows {
            let settings = Settings::resolve(
                fluzo_settings::OPEN,
                &[(fluzo_settings::Source::Global, layer.clone())],
            );
            assert_eq!(limits(&settings).remote.idle, expected, "{layer}");
        }
    }

    #[test]
    fn every_limit_has_its_setting() {
        let default = |key: &str| {
            let found = fluzo_settings::OPEN.iter().find(|def| def.key == key);
            found.map(|def| def.default.parse::<u64>().unwrap())
        };
        for limits in [CallLimits::discovery(), CallLimits::sign_in()] {
            for (limit, value) in [("connect", limits.connect), ("total", limits.total)] {
                let key = format!("{}.{limit}TimeoutMs", limits.section);
                assert_eq!(
                    default(&key).map(u128::from),
                    Some(value.as_millis()),
                    "{key}"
                );
            }
        }
    }
}
