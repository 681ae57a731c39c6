//! Names of time zones.

/// What the name of a time zone is made of.
pub(super) fn is_part_of_time_zone(part: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    (1..=14).contains(&part.len())
        && part.bytes().all(fits)
        && !part.starts_with('-')
        && ![".", ".."].contains(&part)
}

/// Whether there is a time zone of this name.
pub(super) fn is_time_zone(name: &str) -> bool {
    static ZONES: &str = include_str!("../../../data/timezones.txt");
    ["Local", "UTC"].contains(&name) || ZONES.lines().any(|zone| zone == name)
}
