//! `context`: servers that a person names, in a file of that person.

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
use self::file::ContextsPath;
use self::set::Set;

use super::options::ContextsFile;
use super::output::{Output, TextStyle};
use super::problem::{Exit, Problem};
use super::table::{Cell, Table};
use super::text::clean;

pub(super) use self::choose::connect_options;

/// The commands.
#[derive(Subcommand)]
pub(super) enum Command {
    /// List the contexts; `*` marks the current one
    List,
    /// Make a context the current one: it is used unless another server is named
    Use {
        /// The context
        #[arg(value_parser = name)]
        name: String,
    },
    /// Add a context, or change the named fields of one
    Set(Box<Set>),
    /// Remove a context from the file; the files that it names stay
    Remove {
        /// The context
        #[arg(value_parser = name)]
        name: String,
    },
    /// Show every field of a context
    Show {
        /// The context [default: the current one]
        #[arg(value_parser = name)]
        name: Option<String>,
    },
}

impl Command {
    pub(super) fn run(self, file: &ContextsFile, output: Output) -> Result<Exit, Problem> {
        match self {
            Command::List => list(&read(file)?, output)?,
            Command::Use { name } => use_it(&ContextsPath::to_change(file)?, &name, output)?,
            Command::Set(set) => set.run(&ContextsPath::to_change(file)?, output)?,
            Command::Remove { name } => remove(&ContextsPath::to_change(file)?, &name, output)?,
            Command::Show { name } => show(file, name.as_deref(), output)?,
        }
        Ok(Exit::Done)
    }
}

fn read(file: &ContextsFile) -> Result<Contexts, Problem> {
    ContextsPath::of(file).map_or_else(|| Ok(Contexts::default()), |place| place.read())
}

fn list(contexts: &Contexts, output: Output) -> Result<(), Problem> {
    let is_current = |name: &str| contexts.current.as_deref() == Some(name);
    if output.json() {
        for (name, context) in &contexts.named {
            output.line(&document(name, context, is_current(name)).to_string())?;
        }
        return Ok(());
    }
    if contexts.named.is_empty() {
        output.note(&contexts.known());
        return Ok(());
    }
    let mut table = Table::new(&["", "NAME", "ENDPOINT"]);
    for (name, context) in &contexts.named {
        let (mark, style) = if is_current(name) { ("*", TextStyle::Strong) } else { ("", TextStyle::Plain) };
        let endpoint = clean(context.get(Field::Endpoint).unwrap_or_default());
        table.row(vec![Cell::new(mark, style), Cell::new(name.clone(), style), endpoint.into()]);
    }
    table.print(output)?;
    if let Some(current) = contexts.current.as_ref().filter(|current| !contexts.named.contains_key(*current))
    {
        output.note(&format!(
            "the current one, {current}, is not among them: choose another with `context use`"
        ));
    }
    overridden(output);
    Ok(())
}

/// Notes which variables override the current context.
fn overridden(output: Output) {
    for variable in ["IDEMPOTENCY_LEDGER_ENDPOINT", "IDEMPOTENCY_LEDGER_CONTEXT"] {
        if std::env::var_os(variable).is_some() {
            output.note(&format!("{variable} is set: it comes before the current context"));
        }
    }
}

/// A context as JSON, with the fields' names in the style of messages.
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

fn use_it(place: &ContextsPath, name: &str, output: Output) -> Result<(), Problem> {
    let endpoint = place.change(|text, contexts| {
        let endpoint =
            find(contexts, name, "context use")?.get(Field::Endpoint).unwrap_or_default().to_owned();
        let expected = Contexts { current: Some(name.to_owned()), ..contexts.clone() };
        Ok((edit::with_current(text, name), expected, endpoint))
    })?;
    output.note(&format!("the current context is {name}: {}", clean(&endpoint)));
    overridden(output);
    Ok(())
}

fn remove(place: &ContextsPath, name: &str, output: Output) -> Result<(), Problem> {
    let was_current = place.change(|text, contexts| {
        find(contexts, name, "context remove")?;
        let was_current = contexts.current.as_deref() == Some(name);
        let mut expected = contexts.clone();
        expected.named.remove(name);
        let mut text = edit::without_context(text, name);
        if was_current {
            // Otherwise every command would look for a removed context.
            expected.current = None;
            text = edit::without_current(&text);
        }
        Ok((text, expected, was_current))
    })?;
    let now = if was_current { "; it was the current one, and none is now" } else { "" };
    output.note(&format!("removed {name}{now}"));
    Ok(())
}

fn show(file: &ContextsFile, name: Option<&str>, output: Output) -> Result<(), Problem> {
    let contexts = read(file)?;
    let by = if name.is_some() { "context show" } else { "current" };
    let Some(name) = name.or(contexts.current.as_deref()) else {
        let text = format!("no context is the current one; {}", contexts.known());
        return Err(Problem::usage(text).next("name one, or choose one with `context use NAME`"));
    };
    let context = find(&contexts, name, by)?;
    let is_current = contexts.current.as_deref() == Some(name);
    if output.json() {
        return output.line(&document(name, context, is_current).to_string());
    }
    let current = if is_current { " (the current one)" } else { "" };
    let mut table = Table::fields();
    table.row(vec!["context".into(), Cell::from(format!("{name}{current}"))]);
    for (field, text) in &context.0 {
        table.row(vec![Cell::new(field.word(), TextStyle::Faint), clean(text).into()]);
    }
    if let Some(place) = ContextsPath::of(file) {
        table.row(vec![Cell::new("file", TextStyle::Faint), clean(&place.path.display().to_string()).into()]);
    }
    table.print(output)
}
