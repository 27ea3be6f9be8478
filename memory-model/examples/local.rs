//! Makes vectors with a model in a folder, and tells how alike texts are and how many texts it takes a second:
//!
//! ```sh
//! cargo run --release -p agent-memory-model --features local --example local -- FOLDER [QUESTION [TEXT...]]
//! ```

use std::env;
use std::time::Instant;

use memory_core::{Error, Result};
use memory_model::Embedder;
use memory_model::local::LocalEmbedder;

const QUESTION: &str = "Which pets does Ana have?";
const TEXTS: [&str; 3] =
    ["Ana adopted a cat last spring.", "The dog next door barks at night.", "The train to Lima leaves at noon."];
/// As long as an ordinary sentence: 12 words.
const SENTENCE: &str = "We moved the meeting to Tuesday because Ben is away on Monday";
/// Texts of the measurement, and of each call in it.
const COUNT: usize = 640;
const BATCH: usize = 32;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let folder = arguments.next().ok_or_else(|| Error::invalid("name the folder of a model"))?;
    let began = Instant::now();
    let model = LocalEmbedder::open(&folder).await?;
    println!("{}, vectors of {} numbers, loaded in {} ms", model.model(), model.width(), began.elapsed().as_millis());

    let question = arguments.next().unwrap_or_else(|| QUESTION.to_owned());
    let mut texts: Vec<_> = arguments.collect();
    if texts.is_empty() {
        texts = TEXTS.map(str::to_owned).to_vec();
    }
    let began = Instant::now();
    let asked = model.embed(std::slice::from_ref(&question)).await?.swap_remove(0);
    println!("\n{question} ({:.1} ms)", began.elapsed().as_secs_f64() * 1e3);
    for (text, vector) in texts.iter().zip(model.embed(&texts).await?) {
        println!("  {:.3}  {text}", cosine(&asked, &vector));
    }

    let sentences: Vec<_> = (0..COUNT).map(|number| format!("{SENTENCE} {number}")).collect();
    let began = Instant::now();
    for batch in sentences.chunks(BATCH) {
        model.embed(batch).await?;
    }
    println!("\n{:.0} texts of 12 words a second, one call at a time", COUNT as f64 / began.elapsed().as_secs_f64());
    Ok(())
}

/// Vectors have the length 1.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
