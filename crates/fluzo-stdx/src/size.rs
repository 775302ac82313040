//! Byte counts as people read them, in the form the tools' notices use.

/// `512B`, `1.5KB`, `2.0MB`: bytes below 1 KiB, else one decimal.
pub fn format_size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    const MIB: u64 = KIB * KIB;
    // Precision beyond one decimal is never shown.
    #[allow(clippy::cast_precision_loss)]
    let scaled = |unit: u64| bytes as f64 / unit as f64;
    match bytes {
        0..KIB => format!("{bytes}B"),
        KIB..MIB => format!("{:.1}KB", scaled(KIB)),
        _ => format!("{:.1}MB", scaled(MIB)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.0KB"),
            (51200, "50.0KB"),
            (131_072, "128.0KB"),
            (1_048_576, "1.0MB"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }
}
