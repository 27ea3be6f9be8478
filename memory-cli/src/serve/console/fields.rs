//! The fields of the forms.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use memory_core::engine::Permit;
use memory_core::{Error, Filter, Kind, Order, QueryBuilder, Result, Status, Timestamp};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::serve::limits::Limits;
use crate::serve::problem::Problem;
use crate::serve::scope::SpaceParams;

/// Which spaces a form asks about: those of any field, and all when none is filled in.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ScopeFields {
    /// The space with this id.
    space: String,
    /// This space and all below it.
    under: String,
    /// Spaces that start with these bytes.
    prefix: String,
    /// Spaces whose whole name matches a pattern with `*`, `?` and `[a-z]`.
    glob: String,
    /// Spaces in which a regular expression finds something.
    regex: String,
}

impl ScopeFields {
    /// Names the spaces of a query, as REST does. The permit, which comes with patterns, is kept until the query has its answer.
    pub(super) async fn apply<K: Kind + Send + 'static>(
        &self,
        query: QueryBuilder<K>,
        limits: &Limits,
    ) -> std::result::Result<(QueryBuilder<K>, Option<Permit>), Problem> {
        let mut spaces = self.spaces();
        spaces.all = spaces.is_empty();
        spaces.apply(query, limits).await
    }

    /// How many globs and regexes are filled in.
    pub(super) fn patterns(&self) -> usize {
        self.spaces().patterns()
    }

    /// The parameters of a link to the same scope.
    pub(super) fn parameters(&self) -> [(&'static str, &str); 5] {
        let Self { space, under, prefix, glob, regex } = self;
        [("space", space), ("under", under), ("prefix", prefix), ("glob", glob), ("regex", regex)]
    }

    /// The fields of a form. The rarer ones stay closed until they are wanted.
    pub(super) fn inputs(&self) -> Markup {
        let has_rarer = [&self.prefix, &self.glob, &self.regex].into_iter().any(|value| !value.is_empty());
        html! {
            (input("space", "Space", &self.space))
            (input("under", "Space with all below it", &self.under))
            details class="more" open[has_rarer] {
                summary { "Other ways to name spaces" }
                div class="fields" {
                    (input("prefix", "Space that begins with", &self.prefix))
                    (input("glob", "Space as a pattern of *, ? and [a-z]", &self.glob))
                    (input("regex", "Space by a regular expression", &self.regex))
                }
            }
        }
    }

    fn spaces(&self) -> SpaceParams {
        // A space may have a name of blanks, so all that is there counts.
        let named = |value: &str| Some(value.to_owned()).into_iter().filter(|value| !value.is_empty()).collect();
        let Self { space, under, prefix, glob, regex } = self;
        let (space, under, prefix) = (named(space), named(under), named(prefix));
        SpaceParams { space, under, prefix, glob: named(glob), regex: named(regex), all: false }
    }
}

/// What is written in a field, if anything is.
pub(super) fn filled(value: &str) -> Option<&str> {
    Some(value).filter(|value| !value.trim().is_empty())
}

/// The time in a field: a date, or a date and a time, in UTC; or milliseconds since 1970.
pub(super) fn moment(name: &str, value: &str) -> Result<Option<Timestamp>> {
    let Some(value) = filled(value).map(str::trim) else { return Ok(None) };
    let at = |time: DateTime| TimeZone::UTC.to_timestamp(time).ok().map(jiff::Timestamp::as_millisecond);
    let millis = value.parse().ok();
    let millis = millis.or_else(|| Some(value.parse::<jiff::Timestamp>().ok()?.as_millisecond()));
    let millis = millis.or_else(|| at(value.parse::<DateTime>().ok()?));
    let millis = millis.or_else(|| at(value.parse::<Date>().ok()?.to_datetime(jiff::civil::Time::midnight())));
    let wrong = || Error::invalid(format!("{name} is no time: write it as 2026-01-31 or 2026-01-31T12:00, in UTC"));
    Timestamp::from_millis(millis.ok_or_else(wrong)?).map(Some)
}

/// The number in a field, from a range.
pub(super) fn whole(name: &str, value: &str, default: usize, most: usize) -> Result<usize> {
    let Some(value) = filled(value) else { return Ok(default) };
    let number = value.trim().parse().ok().filter(|number| *number <= most);
    number.ok_or_else(|| Error::invalid(format!("{name} is no number from 0 to {most}")))
}

/// A field for a line of text.
pub(super) fn input(name: &str, label: &str, value: &str) -> Markup {
    html! {
        p {
            label for=(name) { (label) }
            input type="text" id=(name) name=(name) value=(value) dir="auto" autocomplete="off" spellcheck="false";
        }
    }
}

/// A field for a time. It is a line of text, so that what is written there stays when it is wrong.
pub(super) fn time_input(name: &str, label: &str, value: &str) -> Markup {
    html! {
        p {
            label for=(name) { (label) }
            input type="text" id=(name) name=(name) value=(value) placeholder="2026-01-31T12:00" autocomplete="off";
        }
    }
}

/// A field for a number from a range.
pub(super) fn number_input(name: &str, label: &str, value: &str, most: usize) -> Markup {
    html! {
        p {
            label for=(name) { (label) }
            input type="number" id=(name) name=(name) value=(value) min="0" max=(most) step="1";
        }
    }
}

/// The query of the page at a cursor, in the order of a field.
pub(super) fn paged<K: Kind>(
    query: QueryBuilder<K>,
    order: &str,
    condition: Option<Filter>,
    cursor: &str,
) -> QueryBuilder<K> {
    let query = query.order(if order == "oldest" { Order::OldestFirst } else { Order::NewestFirst });
    let query = condition.into_iter().fold(query, QueryBuilder::filter);
    filled(cursor).into_iter().fold(query, QueryBuilder::cursor)
}

/// The orders to choose among.
pub(super) const ORDERS: [(&str, &str); 2] = [("", "Newest first"), ("oldest", "Oldest first")];

/// A choice among values, each with its text.
pub(super) fn choice(name: &str, label: &str, choices: &[(&str, &str)], chosen: &str) -> Markup {
    html! {
        p {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                @for (value, text) in choices {
                    option value=(value) selected[*value == chosen] { (text) }
                }
            }
        }
    }
}

/// A choice among the statuses of a memory, and any of them.
pub(super) fn status_choice(chosen: &str) -> Markup {
    let statuses: Vec<_> = [("", "Any")].into_iter().chain(Status::ALL.map(|s| (s.as_str(), s.as_str()))).collect();
    choice("status", "Status", &statuses, chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let millis = |value| moment("from", value).map(|time| time.map(Timestamp::as_millis));
        for (value, expected) in [
            (" ", None),
            ("0", Some(0)),
            ("-7", Some(-7)),
            ("1970-01-02", Some(86_400_000)),
            ("1970-01-01T00:01", Some(60_000)),
            ("1970-01-01 00:00:00.001", Some(1)),
            ("1970-01-01T01:00:00+01:00", Some(0)),
            ("1970-01-01T00:00:01Z", Some(1_000)),
        ] {
            assert_eq!(millis(value).expect(value), expected, "{value}");
        }
        for wrong in ["tomorrow", "1970-13-01", "9999999999999999"] {
            assert!(millis(wrong).is_err(), "{wrong}");
        }
    }
}
