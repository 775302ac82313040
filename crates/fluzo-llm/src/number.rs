//! Numbers as JavaScript writes them: `0`, not `0.0`.

use serde::Serializer;

/// Serialises a whole number without a fraction part.
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        // Whole and within the exact range of a double, so the conversion loses nothing.
        #[allow(clippy::cast_possible_truncation)]
        return serializer.serialize_i64(*value as i64);
    }
    serializer.serialize_f64(*value)
}
