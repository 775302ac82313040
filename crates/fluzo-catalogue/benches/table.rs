//! What the catalogue costs a run: finding one model, and making all of them.
#![allow(missing_docs)]

use divan::counter::ItemsCount;
use fluzo_catalogue::{HOSTS, model, models, models_of};

fn main() {
    divan::main();
}

/// A host near the beginning of the table, one in the middle, one at its end.
#[divan::bench(args = ["openai", "openrouter", "github-models"])]
fn one(host: &str) -> usize {
    let last = models_of(host).last();
    last.and_then(|row| model(host, row.id))
        .map_or(0, |row| row.model().id.len())
}

#[divan::bench]
fn the_default_of_the_first_host() -> Option<String> {
    let host = HOSTS.first()?;
    Some(model(host.id, host.default_model?)?.model().id)
}

#[divan::bench]
fn rows(bencher: divan::Bencher<'_, '_>) {
    let count = models().count();
    bencher
        .counter(ItemsCount::new(count))
        .bench(|| models().count());
}

#[divan::bench]
fn whole_models(bencher: divan::Bencher<'_, '_>) {
    let count = models().count();
    bencher
        .counter(ItemsCount::new(count))
        .bench(|| models().map(|row| row.model()).collect::<Vec<_>>());
}
