//! Test doubles: a mock agent, a scripted provider, effects, conformance suites.
