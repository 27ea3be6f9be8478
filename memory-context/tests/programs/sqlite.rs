// Stores an event and asks for it. The programs of all engines differ in the line that names the URL.

use memory_core::{Clock, MemoryQuery, NewMemory, Recall, Result, SystemClock};

#[tokio::main]
async fn main() -> Result<()> {
    let memory = memory_runtime::open("sqlite://memory.db")?;
    memory.init().await?;
    let (space, event) = ("guild1-ana-m1".parse()?, r#"{"text":"I adopted a cat"}"#.parse()?);
    memory.store(NewMemory::new(space, event, SystemClock.now())).await?;
    let question = Recall::new("Who adopted a cat?", MemoryQuery::builder().under("guild1").build()?)?;
    println!("{}", memory.recall(&question).await?.hits[0].record.trigger.as_str());
    memory.shutdown().await
}
