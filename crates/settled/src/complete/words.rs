//! Completion words: items of lists with commas, and words that need no quoting.

/// Splits a comma-separated list before its last item.
pub(super) fn last_item(list: &str) -> (&str, &str) {
    list.split_at(list.rfind(',').map_or(0, |comma| comma + 1))
}

/// Whether a name can stand on a command line as it is. A server or a kubeconfig may say anything.
pub(super) fn is_harmless(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_alphanumeric() || "-._:/@+=,%".contains(c))
}
