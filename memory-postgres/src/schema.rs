//! The schema: PostgreSQL as a target of the migrations crate, the backfill of the documents' places, and the
//! inspection for operators.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use memory_core::engine::{Access, Retry, SHORT_BACKFILL};
use memory_core::{Backfill, Error, ErrorKind, HeldBack, Inspection, Outcome, Result, Timestamp};
use migrations::{Applied, Kind, PATHS, Report, Step, Target, WRITER};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgRow;

use crate::config::PostgresConfig;
use crate::connection::{Connections, Session};
use crate::error::{is_locked, is_passing, native};
use crate::row::column;

/// Maximum time for which the set-up is retried, even if the deadline is longer.
const LONGEST_SET_UP: Duration = Duration::from_secs(60 * 60);
/// Number of documents that a slice of the backfill covers.
const SLICE: i64 = 128;

/// Creates or migrates the schema, as `init` does, and returns the applied steps.
pub async fn migrate(config: &PostgresConfig) -> Result<Report> {
    on_connections(config, Outcome::Unknown, async |connections| set_up(connections, config).await).await
}

/// Returns the steps that [`migrate`] would apply. Changes nothing; a missing schema stays missing.
pub async fn plan(config: &PostgresConfig) -> Result<Report> {
    let plan = async |connections: &Connections| {
        let mut target = PostgresTarget(connections.first_transaction().await?);
        migrations::plan(&mut target, migrations::postgres()).await
    };
    on_connections(config, Outcome::NotDone, plan).await
}

/// Drops the schema with all its data. Does nothing if there is none.
pub async fn remove(config: &PostgresConfig) -> Result<()> {
    let remove = async |connections: &Connections| {
        let mut session = connections.first_transaction().await?;
        session.write(session.statement(|on| &on.remove_schema)).await?;
        session.end().await
    };
    on_connections(config, Outcome::Unknown, remove).await
}

/// Returns the missing tables, indexes and triggers of the schema, the server's time, the size of the data, and the
/// transaction that holds the feed back. Changes nothing.
pub async fn inspect(config: &PostgresConfig) -> Result<Inspection> {
    let look = async |connections: &Connections| {
        let mut session = connections.first_transaction().await?;
        let row = session.row(session.statement(|on| &on.inspect)).await?;
        let running = session.rows(session.statement(|on| &on.first_running)).await?;
        session.end().await?;
        let present: Vec<String> = column(&row, 1)?;
        let is_missing = |name: &&str| !present.iter().any(|present| present == name);
        let missing = names().into_iter().filter(is_missing).map(str::to_owned).collect();
        let server_time = Timestamp::from_millis(column(&row, 0)?)?;
        let bytes = u64::try_from(column::<i64>(&row, 2)?).ok();
        let held_back = running.first().map(held_back).transpose()?;
        Ok(Inspection::new(missing, Some(server_time), bytes).with_held_back(held_back))
    };
    on_connections(config, Outcome::NotDone, look).await
}

/// Describes the transaction that holds the feed back. Its statement may hold a payload, and is left out.
fn held_back(row: &PgRow) -> Result<HeldBack> {
    let text = |index| column::<Option<&str>>(row, index);
    let longest =
        column::<Option<i64>>(row, 4)?.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
    let by = match (text(5)?, column::<Option<i32>>(row, 0)?, text(3)?) {
        (Some(name), _, _) => format!("the prepared transaction {name:?}"),
        (None, Some(process), Some(state)) => {
            let (application, database) = (text(1)?.unwrap_or_default(), text(2)?.unwrap_or_default());
            format!(
                "the transaction of process {process} (application {application:?}, database {database:?}, {state})"
            )
        }
        (None, Some(process), None) => {
            format!("the transaction of process {process}, of which a role with pg_read_all_stats sees more")
        }
        (None, None, _) => "a transaction that this role can't see".to_owned(),
    };
    Ok(HeldBack::new(by, longest))
}

/// Creates or migrates the schema.
pub(crate) async fn set_up(connections: &Connections, config: &PostgresConfig) -> Result<Report> {
    let retry = Retry::until(Instant::now() + config.deadline.min(LONGEST_SET_UP)).repeatable();
    let migrate = async |_| {
        let start = Instant::now();
        let mut target = PostgresTarget(connections.first_transaction().await?);
        let report = migrations::migrate(&mut target, migrations::postgres()).await;
        // The steps before a failed one stay.
        let ended = target.0.end().await;
        let report = report.and_then(|report| ended.map(|()| report));
        if report.as_ref().is_err_and(is_locked) {
            // Gives the waiting stores as much time as the attempt took.
            tokio::time::sleep(start.elapsed()).await;
        }
        report
    };
    retry.run(|error| is_passing(error) || is_locked(error), migrate).await
}

/// Returns the progress of the backfill of the documents' places, unless it is complete.
pub(crate) async fn pending(connections: &Connections) -> Result<Vec<Backfill>> {
    let mut session = connections.session(Access::ReadLatest, None).await?;
    let paths = session.rows(session.statement(|on| &on.pending_paths).bind(SHORT_BACKFILL as i64)).await?;
    session.end().await?;
    let count = |row: &PgRow, index| Ok::<_, Error>(u64::try_from(column::<i64>(row, index)?).unwrap_or_default());
    paths.iter().map(|row| Ok(Backfill::of_places(count(row, 0)?, count(row, 1)?))).collect()
}

/// Makes the namespace read-only, or writable again.
pub(crate) async fn set_read_only(connections: &Connections, is_read_only: bool) -> Result<()> {
    let text = if is_read_only { FENCE } else { UNFENCE };
    let mut session = connections.first_transaction().await?;
    let text = text.replace("{schema}", &session.on().schema);
    let set = session.command(AssertSqlSafe(text)).await.map_err(native);
    let ended = session.end().await;
    set.and(ended)
}

/// Returns whether the namespace is read-only.
pub(crate) async fn is_read_only(connections: &Connections) -> Result<bool> {
    let mut session = connections.session(Access::ReadLatest, None).await?;
    let is_read_only = session.holds(session.statement(|on| &on.is_read_only)).await?;
    session.end().await?;
    Ok(is_read_only)
}

/// Makes the entries of the next documents. Concurrent programs make the same ones.
pub(crate) async fn backfill(connections: &Connections) -> Result<()> {
    let mut session = connections.session(Access::Write, None).await?;
    if let Some(reached) = session.rows(session.statement(|on| &on.reached_paths)).await?.first() {
        let slice = session.statement(|on| &on.backfill_paths);
        let slice = slice.bind(column::<String>(reached, 0)?).bind(column::<String>(reached, 1)?).bind(SLICE);
        let last = session.written_rows(slice).await?;
        let count = last.first().map_or(Ok(0), |last| column::<i64>(last, 2))?;
        if let Some(last) = last.first() {
            let advance = session.statement(|on| &on.advance_paths);
            let advance = advance.bind(column::<String>(last, 0)?).bind(column::<String>(last, 1)?).bind(count);
            session.write(advance).await?;
        }
        if count < SLICE {
            session.write(session.statement(|on| &on.end_paths)).await?;
            session.write(session.statement(|on| &on.complete_paths)).await?;
        }
    }
    session.end().await
}

/// Does work on connections of its own, within the deadline. `late` is the outcome if the deadline passes.
async fn on_connections<T>(
    config: &PostgresConfig,
    late: Outcome,
    work: impl AsyncFnOnce(&Connections) -> Result<T>,
) -> Result<T> {
    let connections = Connections::new(config)?;
    let done = tokio::time::timeout(config.deadline, work(&connections)).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} ms", config.deadline.as_millis());
        Err(Error::new(ErrorKind::Timeout, message).with_outcome(late).retryable())
    });
    connections.close().await;
    done
}

/// Refuses each write of a read-only namespace. The triggers are created on first use, and disabled to make the
/// namespace writable again; both wait for writers, not for readers. The lock ensures that earlier writes have ended.
const FENCE: &str = "
    LOCK TABLE {schema}.memories IN SHARE ROW EXCLUSIVE MODE;
    LOCK TABLE {schema}.documents IN SHARE ROW EXCLUSIVE MODE;
    DO $do$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_trigger
            WHERE tgrelid = to_regclass($of${schema}.documents$of$) AND tgname = 'documents_read_only') THEN
            CREATE OR REPLACE FUNCTION {schema}.refuse_write() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
                RAISE EXCEPTION 'the ledger is read-only' USING ERRCODE = 'AM003';
            END $body$;
            CREATE TRIGGER memories_read_only BEFORE INSERT OR UPDATE OR DELETE ON {schema}.memories
                FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_write();
            CREATE TRIGGER documents_read_only BEFORE INSERT OR UPDATE OR DELETE ON {schema}.documents
                FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_write();
        END IF;
    END $do$;
    ALTER TABLE {schema}.memories ENABLE TRIGGER memories_read_only;
    ALTER TABLE {schema}.documents ENABLE TRIGGER documents_read_only";
/// Makes the namespace writable again. Does nothing if it was never read-only.
const UNFENCE: &str = "
    DO $do$ BEGIN
        IF EXISTS (SELECT FROM pg_trigger
            WHERE tgrelid = to_regclass($of${schema}.documents$of$) AND tgname = 'documents_read_only') THEN
            ALTER TABLE {schema}.memories DISABLE TRIGGER memories_read_only;
            ALTER TABLE {schema}.documents DISABLE TRIGGER documents_read_only;
        END IF;
    END $do$";

/// The prefix of each step. A store locks the ledger first, then the tables that belong to it. The steps of a migration
/// share a transaction, so a step with another order could deadlock with an older program.
const LEDGER_FIRST: &str = "DO $lock$ BEGIN
    IF to_regclass($of${schema}.memories$of$) IS NOT NULL THEN
        LOCK TABLE {schema}.memories IN SHARE ROW EXCLUSIVE MODE;
    END IF;
END $lock$;
";

/// Returns the tables, indexes and triggers that exist after all steps. Each is created or dropped by a statement that
/// begins a line.
fn names() -> Vec<&'static str> {
    let mut names = Vec::new();
    let steps = migrations::postgres().iter().filter(|step| step.kind != Kind::Retired);
    for line in steps.flat_map(|step| step.text.lines()) {
        let mut words = line.split_whitespace().filter(|word| !["IF", "NOT", "EXISTS"].contains(word));
        let verb = words.next();
        let name = words.find(|word| ["TABLE", "INDEX", "TRIGGER"].contains(word)).and_then(|_| words.next());
        let name = name.map(|name| name.trim_start_matches("{schema}.").trim_end_matches(';'));
        match (verb, name) {
            (Some("CREATE"), Some(name)) => names.push(name),
            (Some("DROP"), Some(name)) => names.retain(|other| *other != name),
            _ => {}
        }
    }
    names
}

/// All steps run in one transaction, which holds the lock; the lock is released when the transaction or the connection
/// ends.
struct PostgresTarget(Session);

#[async_trait]
impl Target for PostgresTarget {
    async fn lock(&mut self) -> Result<()> {
        let Self(session) = self;
        if !session.holds(session.statement(|on| &on.is_writer).bind(WRITER.to_string())).await? {
            let message =
                "a setting of the connection does not reach the server: behind a pooler, use pooler=transaction";
            return Err(Error::invalid(message));
        }
        session.row(session.statement(|on| &on.lock_schema)).await?;
        if !session.holds(session.statement(|on| &on.has_bookkeeping)).await? {
            // A role may be allowed to use an existing schema, but not to create one.
            if !session.holds(session.statement(|on| &on.has_schema)).await? {
                session.write(session.statement(|on| &on.create_schema)).await?;
            }
            session.write(session.statement(|on| &on.create_bookkeeping)).await?;
        }
        Ok(())
    }

    async fn applied(&mut self) -> Result<Vec<Applied>> {
        let Self(session) = self;
        if !session.holds(session.statement(|on| &on.has_bookkeeping)).await? {
            return Ok(Vec::new());
        }
        let applied = |row: &PgRow| {
            Ok(Applied {
                version: u32::try_from(column::<i64>(row, 0)?).unwrap_or(u32::MAX),
                name: column(row, 1)?,
                checksum: column(row, 2)?,
                complete: column(row, 3)?,
            })
        };
        session.rows(session.statement(|on| &on.applied)).await?.iter().map(applied).collect()
    }

    async fn apply(&mut self, step: &Step) -> Result<()> {
        let Self(session) = self;
        // All stores wait behind this lock, which waits just long enough for the server to cancel an autovacuum that
        // holds it.
        let begin = "SAVEPOINT migration; SELECT set_config('lock_timeout', (setting::bigint + 500)::text, TRUE)
            FROM pg_settings WHERE name = 'deadlock_timeout'";
        session.command(begin).await.map_err(native)?;
        let text = [LEDGER_FIRST, step.text].concat().replace("{schema}", &session.on().schema);
        let applied = session.command(AssertSqlSafe(text)).await.map_err(native);
        let insert = session.statement(|on| &on.insert_applied).bind(i64::from(step.version)).bind(step.name);
        let insert = insert.bind(step.checksum()).bind(step.kind == Kind::Quick);
        let mut applied = if applied.is_ok() { session.write(insert).await.map(drop) } else { applied };
        if applied.is_ok() && step.name == PATHS {
            // If there are no documents, the backfill is complete.
            applied = session.write(session.statement(|on| &on.complete_paths)).await.map(drop);
        }
        let end = if applied.is_ok() { "RELEASE migration" } else { "ROLLBACK TO migration; RELEASE migration" };
        let ended = session.command(end).await.map_err(native);
        applied.and(ended)
    }

    async fn unlock(&mut self) -> Result<()> {
        Ok(())
    }
}
