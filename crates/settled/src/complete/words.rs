//! Completion words: items of lists with commas, and words that need no quoting.

/// What stands before the last item of a list with its comma, and the item.
pub(super) fn last_item(list: &str) -> (&str, &str) {
    list.split_at(list.rfind(',').map_or(0, |comma| comma + 1))
}

/// Whether a name can stand on a command line as it is. A server or a kubeconfig may say anything.
pub(super) fn is_harmless(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_alphanumeric() || "-._:/@+=,%".contains(c))
}
