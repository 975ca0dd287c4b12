//! `context`: the servers that a person reaches by a name, in a file of this person's own.

mod choose;
mod edit;
mod fields;
mod file;
mod parse;
mod set;

use clap::Subcommand;
use serde_json::{Map, Value, json};

use self::choose::find;
use self::fields::{Context, Contexts, Field, name};
use self::file::Place;
use self::set::Set;

use super::options::ContextsFile;
use super::problem::{Exit, Problem};
use super::screen::{Screen, Tone};
use super::table::{Cell, Table};
use super::text::clean;

pub(super) use self::choose::reach;

/// The commands.
#[derive(Subcommand)]
pub(super) enum Command {
    /// List the contexts; `*` marks the current one
    List,
    /// Make a context the current one: it counts wherever no other server is named
    Use {
        /// The context
        #[arg(value_parser = name)]
        name: String,
    },
    /// Add a context, or change of one what is named
    Set(Box<Set>),
    /// Take a context out of the file; the files that it names stay
    Remove {
        /// The context
        #[arg(value_parser = name)]
        name: String,
    },
    /// Show all that a context says
    Show {
        /// The context [default: the current one]
        #[arg(value_parser = name)]
        name: Option<String>,
    },
}

impl Command {
    pub(super) fn run(self, file: &ContextsFile, screen: Screen) -> Result<Exit, Problem> {
        match self {
            Command::List => list(&read(file)?, screen)?,
            Command::Use { name } => use_it(&Place::to_change(file)?, &name, screen)?,
            Command::Set(set) => set.run(&Place::to_change(file)?, screen)?,
            Command::Remove { name } => remove(&Place::to_change(file)?, &name, screen)?,
            Command::Show { name } => show(file, name.as_deref(), screen)?,
        }
        Ok(Exit::Done)
    }
}

fn read(file: &ContextsFile) -> Result<Contexts, Problem> {
    Place::of(file).map_or_else(|| Ok(Contexts::default()), |place| place.read())
}

fn list(contexts: &Contexts, screen: Screen) -> Result<(), Problem> {
    let is_current = |name: &str| contexts.current.as_deref() == Some(name);
    if screen.json() {
        for (name, context) in &contexts.named {
            screen.line(&document(name, context, is_current(name)).to_string())?;
        }
        return Ok(());
    }
    if contexts.named.is_empty() {
        screen.note(&contexts.known());
        return Ok(());
    }
    let mut table = Table::new(&["", "NAME", "ENDPOINT"]);
    for (name, context) in &contexts.named {
        let (mark, tone) = if is_current(name) { ("*", Tone::Strong) } else { ("", Tone::Plain) };
        let endpoint = clean(context.get(Field::Endpoint).unwrap_or_default());
        table.row(vec![Cell::new(mark, tone), Cell::new(name.clone(), tone), endpoint.into()]);
    }
    table.print(screen)?;
    if let Some(current) = contexts.current.as_ref().filter(|current| !contexts.named.contains_key(*current))
    {
        screen.note(&format!(
            "the current one, {current}, is not among them: choose another with `context use`"
        ));
    }
    overridden(screen);
    Ok(())
}

/// Says which variables come before the current context.
fn overridden(screen: Screen) {
    for variable in ["IDEMPOTENCY_LEDGER_ENDPOINT", "IDEMPOTENCY_LEDGER_CONTEXT"] {
        if std::env::var_os(variable).is_some() {
            screen.note(&format!("{variable} is set: it comes before the current context"));
        }
    }
}

/// As JSON, with the fields' names as messages write them.
fn document(name: &str, context: &Context, current: bool) -> Value {
    let value = |field: Field, text: &str| if field.is_bool() { json!(text == "true") } else { json!(text) };
    let mut document = Map::new();
    document.insert("name".to_owned(), json!(name));
    for (field, text) in &context.0 {
        document.insert(field.camel().to_owned(), value(*field, text));
    }
    document.insert("current".to_owned(), json!(current));
    Value::Object(document)
}

fn use_it(place: &Place, name: &str, screen: Screen) -> Result<(), Problem> {
    let endpoint = place.change(|text, contexts| {
        let endpoint =
            find(contexts, name, "context use")?.get(Field::Endpoint).unwrap_or_default().to_owned();
        let expected = Contexts { current: Some(name.to_owned()), ..contexts.clone() };
        Ok((edit::with_current(text, name), expected, endpoint))
    })?;
    screen.note(&format!("the current context is {name}: {}", clean(&endpoint)));
    overridden(screen);
    Ok(())
}

fn remove(place: &Place, name: &str, screen: Screen) -> Result<(), Problem> {
    let was_current = place.change(|text, contexts| {
        find(contexts, name, "context remove")?;
        let was_current = contexts.current.as_deref() == Some(name);
        let mut expected = contexts.clone();
        expected.named.remove(name);
        let mut text = edit::without_context(text, name);
        if was_current {
            // Else every command would ask for a context that is gone.
            expected.current = None;
            text = edit::without_current(&text);
        }
        Ok((text, expected, was_current))
    })?;
    let now = if was_current { "; it was the current one, and none is now" } else { "" };
    screen.note(&format!("removed {name}{now}"));
    Ok(())
}

fn show(file: &ContextsFile, name: Option<&str>, screen: Screen) -> Result<(), Problem> {
    let contexts = read(file)?;
    let by = if name.is_some() { "context show" } else { "current" };
    let Some(name) = name.or(contexts.current.as_deref()) else {
        let text = format!("no context is the current one; {}", contexts.known());
        return Err(Problem::usage(text).next("name one, or choose one with `context use NAME`"));
    };
    let context = find(&contexts, name, by)?;
    let is_current = contexts.current.as_deref() == Some(name);
    if screen.json() {
        return screen.line(&document(name, context, is_current).to_string());
    }
    let current = if is_current { " (the current one)" } else { "" };
    let mut table = Table::bare();
    table.row(vec!["context".into(), Cell::from(format!("{name}{current}"))]);
    for (field, text) in &context.0 {
        table.row(vec![Cell::new(field.word(), Tone::Faint), clean(text).into()]);
    }
    if let Some(place) = Place::of(file) {
        table.row(vec![Cell::new("file", Tone::Faint), clean(&place.path.display().to_string()).into()]);
    }
    table.print(screen)
}
