//! Next steps: the commands that a screen suggests.

use console::measure_text_width;

use super::table::wrapped_text;

/// The lines of a next step: a command, and what it does; or a text alone. Where the line is wider than the terminal, the command
/// follows in a line without a break, so that it can be pasted.
pub(super) fn step(width: Option<usize>, command: &str, what: &str) -> Vec<String> {
    const HEAD: &str = "next: ";
    let room = width.unwrap_or(usize::MAX);
    if command.is_empty() {
        let texts = wrapped_text(what, room.saturating_sub(HEAD.len()));
        let head = |nth: usize| if nth == 0 { HEAD } else { "      " };
        return texts.iter().enumerate().map(|(nth, text)| format!("{}{text}", head(nth))).collect();
    }
    let line = format!("{HEAD}{command}    # {what}");
    if measure_text_width(&line) <= room {
        return vec![line];
    }
    let mut lines = step(width, "", what);
    lines.push(format!("  {command}"));
    lines
}
