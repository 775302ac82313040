//! The licence: text, notice, and what every crate declares.

use xtask::repo::Repo;

#[test]
fn licence_text_is_mit_with_the_notice() {
    let text = Repo::here().read("LICENSE").unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "MIT License",
        "Copyright (c) 2026 Jose Corral",
        "Permission is hereby granted, free of charge, to any person obtaining a copy",
        "The above copyright notice and this permission notice shall be included in all copies",
        "THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND",
    ] {
        assert!(words.contains(part), "{part}");
    }
}

#[test]
fn every_crate_declares_mit() {
    for package in super::packages() {
        assert_eq!(package.license.as_deref(), Some("MIT"), "{}", package.name);
    }
}

#[test]
fn crates_carry_the_prefix_and_the_program_is_fluzo() {
    let packages = super::packages();
    for package in packages.iter().filter(|p| p.name != "xtask") {
        assert!(package.name.starts_with("fluzo-"), "{}", package.name);
        assert!(
            package
                .folder()
                .ends_with(format!("crates/{}", package.name))
        );
    }
    let programs: Vec<&str> = packages
        .iter()
        .filter(|p| p.name != "xtask")
        .flat_map(|p| &p.targets)
        .filter(|t| t.kind.iter().any(|k| k == "bin"))
        .map(|t| t.name.as_str())
        .collect();
    assert!(programs.contains(&"fluzo"), "{programs:?}");
}
