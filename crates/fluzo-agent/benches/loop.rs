//! What the loop itself costs.
fn main() {
    divan::main();
}
