//! An agent that remembers, with a tool that its model may call.

use memory_context::agent::{Agent, Answer, Tool, ToolContext};

/// Tells the weather of a place.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Weather {
    /// The name of a town.
    place: String,
}

async fn weather(arguments: Weather, _: ToolContext) -> memory_context::Result<String> {
    Ok(format!("It rains in {}.", arguments.place))
}

#[tokio::main]
async fn main() -> memory_context::Result<()> {
    let agent = Agent::builder("ada")
        .memory("sqlite://agent.db") // a URL, or any Arc<dyn MemoryProvider>
        .model("http://localhost:11434/v1", "llama3.2") // or .model_client(impl Model)
        .system("You are terse.")
        .tool(Tool::new("weather", weather)) // description and schema from the type; closures too
        .build()
        .await?;
    let answer: Answer = agent.ask("ana", "Does it rain in Lima?").await?;
    println!("{}", answer.text);
    agent.shutdown().await
}
