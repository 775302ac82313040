//! The suite that every agent passes, over the native loop: one test for each check.

use std::sync::Arc;

use fluzo_agent::{Agent, AgentOptions, NoHooks};
use fluzo_testkit::World;
use fluzo_testkit::conformance::{Script, agent_checks};

fn native(script: Script) -> Arc<dyn Agent> {
    let options = AgentOptions {
        steering: script.steering,
        follow_up: script.follow_up,
        ..AgentOptions::default()
    };
    Arc::new(World::new(script.replies).native_with(NoHooks, options))
}

macro_rules! checks {
    ($($test:ident: $check:literal,)*) => {
        const TESTED: &[&str] = &[$($check),*];
        $(
            #[test]
            fn $test() {
                let (_, check) = agent_checks().into_iter().find(|(name, _)| *name == $check).unwrap();
                check(&native);
            }
        )*
    };
}

checks! {
    events_frame_a_simple_prompt: "events frame a simple prompt",
    busy_while_a_run_is_active: "busy while a run is active, idle before and after",
    refusals_have_pis_texts: "refusals have pi's texts",
    a_failed_response_ends_the_run: "a failed response ends the run",
    a_reply_without_its_last_event_is_a_failure: "a reply without its last event is a failure",
    cancel_while_streaming_keeps_what_has_arrived: "cancel while streaming keeps what has arrived",
    cancel_between_start_and_the_first_poll: "cancel between start and the first poll",
    cancel_while_idle_does_nothing: "cancel while idle does nothing to the next run",
    each_run_has_its_own_abort: "each run has its own abort",
    a_dropped_run_leaves_nothing_behind: "a dropped run leaves nothing behind",
    a_run_never_polled_leaves_nothing_behind: "a run that was never polled leaves nothing behind",
    state_fits_every_event: "state fits every event",
    the_error_is_kept_until_the_next_run: "the error of a run is kept until the next one",
    listeners_are_awaited_in_order: "listeners are awaited in order",
    a_dropped_subscription_hears_nothing_more: "a dropped subscription hears nothing more",
    idle_waits_for_listeners_of_the_end: "idle waits for listeners of the end",
    idle_returns_after_a_dropped_run: "idle returns after a dropped run",
    a_run_sees_the_context_it_was_started_with: "a run sees the context it was started with",
    steering_waits_for_the_turns_end: "steering waits for the turn's end",
    steering_before_the_prompt_is_taken_in_at_once: "steering before the prompt is taken in at once",
    a_follow_up_waits_until_the_run_would_end: "a follow-up waits until the run would end",
    steering_goes_before_follow_ups: "steering goes before follow-ups",
    queues_give_one_message_at_a_time: "queues give one message at a time by default",
    mode_all_gives_the_whole_queue: "mode all gives the whole queue",
    queues_can_be_seen_and_cleared: "queues can be seen and cleared",
    after_an_abort_the_queues_keep: "after an abort the queues keep what they have",
    resume_after_a_user_message: "resume after a user message takes no prompt",
    resume_after_a_response_needs_a_message: "resume after a response needs a queued message",
    resume_takes_steering_without_a_second_poll: "resume takes steering without a second poll",
    resume_takes_follow_ups: "resume takes follow-ups when there is no steering",
    a_refused_resume_keeps_the_queues: "a refused resume keeps the queues",
}

#[test]
fn every_check_is_tested() {
    let names: Vec<_> = agent_checks().into_iter().map(|(name, _)| name).collect();
    assert_eq!(TESTED, names);
}
