//! The statements that read the next rows of a walk through the ledger.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_core::SpaceId;

/// So many lists are each a part of a statement; of more, a statement reads the heads.
const FEW: usize = 16;

/// A statement that reads at most $1 rows, of what its keys name.
#[derive(Debug)]
pub(crate) struct Slice {
    /// From the beginning to the end, which spares the server two comparisons for each row. The keys follow from $2 on.
    pub(crate) all: Arc<str>,
    /// Between the places ($2, $3) and ($4, $5), both exclusive. The keys follow from $6 on.
    pub(crate) between: Arc<str>,
}

impl Slice {
    fn new(text: &str, order: &str, schema: &str) -> Self {
        const BETWEEN: &str = "(created_at, id) > ($2::bigint, $3::uuid) AND (created_at, id) < ($4::bigint, $5::uuid)";
        let text = text.replace("{order}", order);
        let with = |between, [key, second_key, third_key]: [&str; 3]| {
            let text = text.replace("{between}", between).replace("{key}", key);
            let text = text.replace("{second_key}", second_key).replace("{third_key}", third_key);
            Arc::from(text.replace("{schema}", schema))
        };
        Self { all: with("TRUE", ["$2", "$3", "$4"]), between: with(BETWEEN, ["$6", "$7", "$8"]) }
    }
}

/// What a memory of a slice is read from, without a payload of more than 64 KiB, which is read later, and in the end the size of that.
macro_rules! memory_slice_columns {
    () => {
        "m.id, m.created_at, m.space_id, m.status, m.updated_at, m.expires_at, m.revision, m.metadata,
            CASE WHEN octet_length(m.trigger) + coalesce(octet_length(m.context), 0) <= 65536 THEN m.trigger END,
            CASE WHEN octet_length(m.trigger) + octet_length(m.context) <= 65536 THEN m.context END, m.idempotency_key,
            octet_length(m.trigger) + coalesce(octet_length(m.context), 0)"
    };
}

/// In the order (createdAt, id), at most $1.
macro_rules! in_order {
    () => {
        " ORDER BY created_at {order}, id {order} LIMIT $1"
    };
}

/// The rows of one list.
macro_rules! listed {
    ($condition:literal) => {
        concat!(
            "SELECT ",
            memory_slice_columns!(),
            " FROM {schema}.memories m WHERE ",
            $condition,
            " AND {between}",
            in_order!()
        )
    };
}

/// The rows of some lists that have none in common. The server reads one after the other of each list, as far as they are wanted.
fn listed_in_one(conditions: impl Iterator<Item = String>) -> String {
    let lists: Vec<_> = conditions
        .map(|condition| format!("({})", listed!("{condition}").replace("{condition}", &condition)))
        .collect();
    lists.join(" UNION ALL ") + in_order!()
}

/// The places at the heads of the lists with the keys of `$wanted`. The indexes have them, so that only what is wanted in the end is read.
macro_rules! heads {
    ($wanted:literal, $list:literal) => {
        concat!(
            "SELECT found.created_at, found.id FROM ",
            $wanted,
            " AS wanted (key) CROSS JOIN LATERAL (SELECT created_at, id FROM {schema}.memories WHERE ",
            $list,
            " = wanted.key AND {between}",
            in_order!(),
            ") found"
        )
    };
}

/// The same of the paths of one depth.
const HEADS_BELOW: &str = heads!(
    "(SELECT hash FROM unnest({key}::int[], {second_key}::bigint[]) AS path (depth, hash) WHERE depth = {depth})",
    "path_{depth}"
);

/// The rows at some places.
fn merged(heads: &[String]) -> String {
    let (columns, heads, in_order) = (memory_slice_columns!(), heads.join(" UNION ALL "), in_order!());
    format!(
        "SELECT {columns} FROM ({heads}{in_order}) c JOIN {{schema}}.memories m ON m.id = c.id
            ORDER BY c.created_at {{order}}, c.id {{order}}"
    )
}

/// The slices of one order of time.
#[derive(Debug)]
pub(crate) struct Slices {
    columns: &'static str,
    order: &'static str,
    schema: String,
    pub(crate) by_time: Slice,
    pub(crate) of_status: Slice,
    pub(crate) by_status: Slice,
    pub(crate) of_space: Slice,
    /// What is below a path, by its depth less one.
    pub(crate) below: Vec<Slice>,
    /// The same, and what is in the space that has the path as its id.
    pub(crate) under: Vec<Slice>,
}

impl Slices {
    /// For `ASC` or `DESC`, and the quoted name of a schema.
    pub(crate) fn new(order: &'static str, schema: &str) -> Self {
        Self::reading(memory_slice_columns!(), order, schema)
    }

    /// The same of the heads alone.
    pub(crate) fn of_heads(order: &'static str, schema: &str) -> Self {
        Self::reading("m.id, m.created_at, m.space_id, m.status, m.updated_at, m.expires_at", order, schema)
    }

    fn reading(columns: &'static str, order: &'static str, schema: &str) -> Self {
        let slice = |text: &str| Slice::new(&text.replace(memory_slice_columns!(), columns), order, schema);
        let below = |depth| slice(&at_depth(listed!("path_{depth} = {key}"), depth));
        let under = |depth| {
            slice(&listed_in_one([format!("path_{depth} = {{key}}"), "space_id = {second_key}".to_owned()].into_iter()))
        };
        let statuses = heads!("unnest({key}::text[])", "status IN ('pending', 'running') AND status");
        Self {
            columns,
            order,
            schema: schema.to_owned(),
            by_time: slice(listed!("TRUE")),
            of_status: slice(listed!("status = {key} AND status IN ('pending', 'running')")),
            by_status: slice(&merged(&[statuses.to_owned()])),
            of_space: slice(listed!("space_id = {key}")),
            below: (1..=SpaceId::MAX_BOUNDARIES).map(below).collect(),
            under: (1..=SpaceId::MAX_BOUNDARIES).map(under).collect(),
        }
    }

    /// What is below paths of these depths, and in so many spaces. The keys are the depths of the paths, their hashes, and the
    /// spaces.
    pub(crate) fn by_place(&self, depths: &[i32], spaces: usize) -> Slice {
        if depths.len() + spaces <= FEW {
            let paths = depths
                .iter()
                .zip(1..)
                .map(|(depth, place)| format!("path_{depth} = ({{second_key}}::bigint[])[{place}]"));
            let spaces = (1..=spaces).map(|place| format!("space_id = ({{third_key}}::text[])[{place}]"));
            return self.slice(&listed_in_one(paths.chain(spaces)));
        }
        let depths: BTreeSet<_> = depths.iter().collect();
        let spaces = heads!("unnest({third_key}::text[])", "space_id").to_owned();
        let heads: Vec<_> = depths.into_iter().map(|depth| at_depth(HEADS_BELOW, depth)).chain([spaces]).collect();
        self.slice(&merged(&heads))
    }

    /// A statement of these, with the vector of each row behind its other columns.
    pub(crate) fn with_vectors(&self, sql: &str) -> Arc<str> {
        let vector = format!("(SELECT v.vector FROM {}.memory_vectors v WHERE v.id = m.id)", self.schema);
        with_vectors(sql, self.columns, &vector)
    }

    fn slice(&self, text: &str) -> Slice {
        Slice::new(&text.replace(memory_slice_columns!(), self.columns), self.order, &self.schema)
    }
}

/// A statement that reads these columns, with a vector behind them: a query of its own, so that the server finds the vector of each row that it
/// gives in the index, and reads no table of vectors for a join.
pub(crate) fn with_vectors(sql: &str, columns: &str, vector: &str) -> Arc<str> {
    sql.replace(columns, &format!("{columns}, {vector}")).into()
}

/// A depth is the one thing of a query that becomes part of a statement, as each has an index of its own. It is a number.
fn at_depth(text: &str, depth: impl ToString) -> String {
    text.replace("{depth}", &depth.to_string())
}
