//! The fields of the forms.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use memory_core::{Error, Kind, QueryBuilder, Result, Timestamp};
use serde::Deserialize;
use utoipa::IntoParams;

/// Which spaces a form asks about: all, when neither field is filled in.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct ScopeFields {
    /// The space with this id.
    space: String,
    /// This space and all below it.
    under: String,
}

impl ScopeFields {
    pub(super) fn apply<K: Kind>(&self, query: QueryBuilder<K>) -> QueryBuilder<K> {
        let (space, under) = (filled(&self.space), filled(&self.under));
        if space.is_none() && under.is_none() {
            return query.all();
        }
        let query = space.into_iter().fold(query, QueryBuilder::exact);
        under.into_iter().fold(query, QueryBuilder::under)
    }

    /// The parameters of a link to the same scope.
    pub(super) fn parameters(&self) -> [(&'static str, &str); 2] {
        [("space", &self.space), ("under", &self.under)]
    }

    pub(super) fn inputs(&self) -> Markup {
        html! {
            (input("space", "Space", &self.space))
            (input("under", "Space with all below it", &self.under))
        }
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
