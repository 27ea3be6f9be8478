//! The statements that read the next rows of a walk along the ledger.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_core::SpaceId;

/// Up to this many lists are separate parts of a statement; for more, the statement merges the heads of the lists.
const FEW: usize = 16;

/// A statement that reads at most $1 rows of the lists that its keys name.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Unbounded, which saves the server two comparisons for each row. The keys begin at $2.
    pub(crate) all: Arc<str>,
    /// Between the positions ($2, $3) and ($4, $5), both exclusive. The keys begin at $6.
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

/// The columns of a memory in a slice. A payload over 64 KiB is left out and read later; the last column is its size.
macro_rules! memory_slice_columns {
    () => {
        "m.id, m.created_at, m.space_id, m.status, m.updated_at, m.expires_at, m.revision, m.metadata,
            CASE WHEN octet_length(m.trigger) + coalesce(octet_length(m.context), 0) <= 65536 THEN m.trigger END,
            CASE WHEN octet_length(m.trigger) + octet_length(m.context) <= 65536 THEN m.context END, m.idempotency_key,
            octet_length(m.trigger) + coalesce(octet_length(m.context), 0)"
    };
}

/// The order (createdAt, id), with at most $1 rows.
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

/// The rows of several disjoint lists. The server reads from each list only as far as rows are wanted.
fn listed_in_one(conditions: impl Iterator<Item = String>) -> String {
    let lists: Vec<_> = conditions
        .map(|condition| format!("({})", listed!("{condition}").replace("{condition}", &condition)))
        .collect();
    lists.join(" UNION ALL ") + in_order!()
}

/// The first positions of the lists with the keys of `$wanted`. They come from the indexes, so that only the rows that
/// are finally wanted are read.
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

/// The same for paths of one depth.
const HEADS_BELOW: &str = heads!(
    "(SELECT hash FROM unnest({key}::int[], {second_key}::bigint[]) AS path (depth, hash) WHERE depth = {depth})",
    "path_{depth}"
);

/// Reads the rows at some positions.
fn merged(heads: &[String]) -> String {
    let (columns, heads, in_order) = (memory_slice_columns!(), heads.join(" UNION ALL "), in_order!());
    format!(
        "SELECT {columns} FROM ({heads}{in_order}) c JOIN {{schema}}.memories m ON m.id = c.id
            ORDER BY c.created_at {{order}}, c.id {{order}}"
    )
}

/// The slices in one order of time.
#[derive(Debug)]
pub(crate) struct Slices {
    columns: &'static str,
    order: &'static str,
    schema: String,
    pub(crate) by_time: Slice,
    pub(crate) of_status: Slice,
    pub(crate) by_status: Slice,
    pub(crate) of_space: Slice,
    /// Below a path, indexed by its depth minus 1.
    pub(crate) below: Vec<Slice>,
    /// Below a path, and in the space whose id is the path.
    pub(crate) under: Vec<Slice>,
}

impl Slices {
    /// Makes the slices for `ASC` or `DESC`, in a schema with this quoted name.
    pub(crate) fn new(order: &'static str, schema: &str) -> Self {
        Self::reading(memory_slice_columns!(), order, schema)
    }

    /// Like [`new`](Self::new), for heads only.
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

    /// Makes a statement for the places below paths of these depths and in this many spaces. The keys are the depths of
    /// the paths, their hashes, and the spaces.
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

    /// Adds the vector of each row after the other columns of a statement.
    pub(crate) fn with_vectors(&self, sql: &str) -> Arc<str> {
        let vector = format!("(SELECT v.vector FROM {}.memory_vectors v WHERE v.id = m.id)", self.schema);
        with_vectors(sql, self.columns, &vector)
    }

    fn slice(&self, text: &str) -> Slice {
        Slice::new(&text.replace(memory_slice_columns!(), self.columns), self.order, &self.schema)
    }
}

/// Adds a vector after these columns of a statement, as a subquery: so the server looks up the vector of each returned
/// row in the index, and joins no table.
pub(crate) fn with_vectors(sql: &str, columns: &str, vector: &str) -> Arc<str> {
    sql.replace(columns, &format!("{columns}, {vector}")).into()
}

/// Inserts a depth. It is the only part of a query that becomes part of a statement, because each depth has an index of
/// its own; it is a number.
fn at_depth(text: &str, depth: impl ToString) -> String {
    text.replace("{depth}", &depth.to_string())
}
