//! The model that computes in this process, with all-MiniLM-L6-v2 from the folder in `MEMORY_TEST_MODEL`.
//!
//! The tests are ignored without it, unless `MEMORY_TEST_REQUIRE` lists `model`, or is unset while `CI` is `true`: then they fail.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use conformance::CaseResult;
use conformance::server::{Missing, async_trial};
use libtest_mimic::{Arguments, Trial};
use memory_core::ErrorKind;
use memory_model::Embedder;
use memory_model::local::LocalEmbedder;
use tempfile::TempDir;

const FOLDER: &str = "MEMORY_TEST_MODEL";

fn main() -> ExitCode {
    let trials = vec![
        trial("vectors_are_those_of_sentence_transformers", vectors_are_those_of_sentence_transformers),
        trial("texts_that_mean_alike_are_near", texts_that_mean_alike_are_near),
        trial("a_batch_gives_the_vectors_of_its_texts_alone", a_batch_gives_the_vectors_of_its_texts_alone),
        trial("the_order_of_words_counts", the_order_of_words_counts),
        trial("long_texts_are_cut", long_texts_are_cut),
        trial("any_text_has_a_vector", any_text_has_a_vector),
        trial("calls_run_beside_others", calls_run_beside_others),
        trial("a_name_tells_models_apart", a_name_tells_models_apart),
        trial("the_first_token_may_stand_for_a_text", the_first_token_may_stand_for_a_text),
        trial("damaged_folders_are_refused", damaged_folders_are_refused),
        trial("damaged_weights_make_no_vectors", damaged_weights_make_no_vectors),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test that is handed the folder of the model.
fn trial<F: Future<Output = CaseResult>>(name: &str, test: impl FnOnce(PathBuf) -> F + Send + 'static) -> Trial {
    async_trial(name, || async move {
        match env::var_os(FOLDER).filter(|folder| !folder.is_empty()) {
            Some(folder) => test(folder.into()).await,
            None => Err(Missing::new("model", format!("{FOLDER} names no folder of all-MiniLM-L6-v2")).into()),
        }
    })
}

/// The vectors that sentence-transformers makes of these texts: the figures are from its documentation.
async fn vectors_are_those_of_sentence_transformers(folder: PathBuf) -> CaseResult {
    let model = LocalEmbedder::open(folder).await?;
    assert_eq!(model.width(), 384);
    let start = [0.067_656_93, 0.063_495_97, 0.048_713_1, 0.079_304_97, 0.037_448_08, 0.002_652_75, 0.039_374_96];
    let example = vectors(&model, &["This is an example sentence"]).await?;
    for (made, expected) in example[0].iter().zip(start) {
        assert!((made - expected).abs() < 1e-5, "{made} is not {expected}");
    }
    let texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."];
    let made = vectors(&model, &texts).await?;
    for (a, b, expected) in [(0, 1, 0.6660), (0, 2, 0.1046), (1, 2, 0.1411)] {
        let made = cosine(&made[a], &made[b]);
        assert!((made - expected).abs() < 1e-4, "{made} is not {expected}");
    }
    Ok(())
}

async fn texts_that_mean_alike_are_near(folder: PathBuf) -> CaseResult {
    let model = LocalEmbedder::open(folder).await?;
    let texts =
        ["A cat sat on the mat", "A cat sat on the mat", "A kitten rests on a rug", "The bank raised its rates"];
    let made = vectors(&model, &texts).await?;
    for vector in &made {
        assert!((cosine(vector, vector) - 1.0).abs() < 1e-5, "each has the length 1");
    }
    assert!((cosine(&made[0], &made[1]) - 1.0).abs() < 1e-5);
    let (alike, other) = (cosine(&made[0], &made[2]), cosine(&made[0], &made[3]));
    assert!(alike > 0.5 && other < 0.2, "{alike} {other}");
    Ok(())
}

async fn a_batch_gives_the_vectors_of_its_texts_alone(folder: PathBuf) -> CaseResult {
    let model = LocalEmbedder::open(folder).await?;
    // From no words to more than the model reads, so that several passes are needed.
    let texts: Vec<_> = [0, 1, 300, 7, 40, 12, 150, 2, 90].map(words).to_vec();
    let together = model.embed(&texts).await?;
    assert_eq!(together.len(), texts.len());
    for (text, vector) in texts.iter().zip(together) {
        let alone = model.embed(std::slice::from_ref(text)).await?.swap_remove(0);
        assert!(alone.iter().zip(&vector).all(|(a, b)| (a - b).abs() < 1e-5), "of {} bytes", text.len());
    }
    assert!(model.embed(&[]).await?.is_empty());
    Ok(())
}

async fn the_order_of_words_counts(folder: PathBuf) -> CaseResult {
    let model = LocalEmbedder::open(folder).await?;
    let made = vectors(&model, &["the dog bit the man", "the man bit the dog"]).await?;
    let alike = cosine(&made[0], &made[1]);
    assert!(alike > 0.8 && alike < 0.9999, "{alike}");
    Ok(())
}

/// The model reads 256 tokens; the tokenizer adds two of them.
async fn long_texts_are_cut(folder: PathBuf) -> CaseResult {
    let model = LocalEmbedder::open(folder).await?;
    let read = "word ".repeat(254);
    let texts =
        [read.clone(), format!("{read} cat"), format!("{} cat", "word ".repeat(253)), "word cat ".repeat(1 << 17)];
    let made = model.embed(&texts).await?;
    assert!((cosine(&made[0], &made[1]) - 1.0).abs() < 1e-5, "what is behind the limit changes nothing");
    assert!(cosine(&made[0], &made[2]) < 0.9999, "what is before it does");
    Ok(())
}

async fn any_text_has_a_vector(folder: PathBuf) -> CaseResult {
    let model = LocalEmbedder::open(folder).await?;
    let long = "x".repeat(1 << 20);
    let made =
        vectors(&model, &["", " \n", "\u{0}", "日本語のテキスト", "👩‍👩‍👧", "[CLS] [SEP] [PAD] [MASK]", &long]).await?;
    for vector in made {
        assert!(vector.len() == 384 && vector.iter().all(|number| number.is_finite()));
    }
    Ok(())
}

/// Callers that stop waiting neither stop the others nor keep their turns, and the runtime's threads stay free.
async fn calls_run_beside_others(folder: PathBuf) -> CaseResult {
    let model = Arc::new(LocalEmbedder::open(folder).await?);
    let expected = model.embed(&[words(5)]).await?;
    for _ in 0..6 {
        let model = Arc::clone(&model);
        let long = tokio::spawn(async move { model.embed(&vec![words(300); 10_000]).await });
        tokio::time::sleep(Duration::from_millis(5)).await;
        long.abort();
        assert!(long.await.is_err_and(|error| error.is_cancelled()), "it takes minutes");
    }
    let calls = (0..8).map(|_| {
        let model = Arc::clone(&model);
        tokio::spawn(async move { model.embed(&[words(5)]).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await??, expected);
    }
    Ok(())
}

async fn a_name_tells_models_apart(folder: PathBuf) -> CaseResult {
    let model = LocalEmbedder::open(&folder).await?;
    let name = model.model().to_owned();
    assert_eq!(name, "MiniLM-L6-H384-uncased@2a54b8df9901861f", "vectors that are stored go by it");
    assert!(format!("{model:?}").contains(&name));
    let copy = Copied::new(&folder)?;
    assert_eq!(copy.open().await?.model(), name, "wherever it lies");
    copy.replace("config.json", "\"transformers_version\": \"4.8.2\"", "\"transformers_version\": \"5.0.0\"")?;
    assert_eq!(copy.open().await?.model(), name, "whoever saved it");
    copy.replace("sentence_bert_config.json", "256", "128")?;
    assert_ne!(copy.open().await?.model(), name, "long texts have other vectors");
    let copy = Copied::new(&folder)?;
    copy.change("model.safetensors", |weights| *weights.last_mut().expect("weights") ^= 1)?;
    assert_ne!(copy.open().await?.model(), name, "a model that was trained further has files as long");
    Ok(())
}

async fn the_first_token_may_stand_for_a_text(folder: PathBuf) -> CaseResult {
    let by_mean = LocalEmbedder::open(&folder).await?;
    let copy = Copied::new(&folder)?;
    copy.replace("1_Pooling/config.json", "\"pooling_mode_cls_token\": false", "\"pooling_mode_cls_token\": true")?;
    copy.replace("1_Pooling/config.json", "\"pooling_mode_mean_tokens\": true", "\"pooling_mode_mean_tokens\": false")?;
    let by_cls = copy.open().await?;
    let texts = ["A cat sat on the mat"];
    let [a, b] = [vectors(&by_mean, &texts).await?, vectors(&by_cls, &texts).await?];
    assert!(cosine(&a[0], &b[0]) < 0.99 && by_mean.model() != by_cls.model());
    assert!((cosine(&b[0], &b[0]) - 1.0).abs() < 1e-5);
    Ok(())
}

async fn damaged_folders_are_refused(folder: PathBuf) -> CaseResult {
    type Damage = fn(&Copied) -> CaseResult;
    let damages: [(&str, Damage); 7] = [
        ("model.safetensors is missing: name the folder", |copy| copy.remove("model.safetensors")),
        ("tokenizer.json is missing: name the folder", |copy| copy.remove("tokenizer.json")),
        ("tokenizer.json: this is not a tokenizer", |copy| copy.change("tokenizer.json", |file| file.truncate(1000))),
        ("model.safetensors: its length is not", |copy| {
            copy.change("model.safetensors", |file| file.truncate(file.len() / 2))
        }),
        ("model.safetensors: the tensor embeddings.position_embeddings.weight does not have", |copy| {
            copy.replace("config.json", "\"max_position_embeddings\": 512", "\"max_position_embeddings\": 511")
        }),
        ("model.safetensors: there is no tensor encoder.layer.6.attention.self.query.weight", |copy| {
            copy.replace("config.json", "\"num_hidden_layers\": 6", "\"num_hidden_layers\": 7")
        }),
        ("tokenizer.json: it has tokens that the weights don't have", |copy| {
            copy.replace("tokenizer.json", "\"##～\":30521", "\"##～\":30522")
        }),
    ];
    for (told, damage) in damages {
        let copy = Copied::new(&folder)?;
        damage(&copy)?;
        let error = copy.open().await.expect_err(told);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.message().contains(told), "{error}");
    }
    let error = LocalEmbedder::open(folder.join("nowhere")).await.expect_err("no folder");
    assert!(error.kind() == ErrorKind::InvalidInput && error.message().contains("modules.json is missing"), "{error}");
    Ok(())
}

async fn damaged_weights_make_no_vectors(folder: PathBuf) -> CaseResult {
    let copy = Copied::new(&folder)?;
    copy.change("model.safetensors", |file| {
        // The weights of the last layer and its neighbours are not numbers.
        let from = file.len() - (1 << 20);
        file[from..].fill(0xff);
    })?;
    let error = copy.open().await?.embed(&["xyzzy".into()]).await.expect_err("not finite");
    assert_eq!(error.kind(), ErrorKind::Unexpected);
    assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
    Ok(())
}

/// A folder with the files of a model, for changes.
struct Copied(TempDir);

impl Copied {
    fn new(folder: &Path) -> std::io::Result<Self> {
        let copy = TempDir::new()?;
        fs::create_dir(copy.path().join("1_Pooling"))?;
        for file in [
            "modules.json",
            "config.json",
            "sentence_bert_config.json",
            "tokenizer.json",
            "model.safetensors",
            "1_Pooling/config.json",
        ] {
            fs::copy(folder.join(file), copy.path().join(file))?;
        }
        Ok(Self(copy))
    }

    async fn open(&self) -> memory_core::Result<LocalEmbedder> {
        LocalEmbedder::open(self.0.path()).await
    }

    fn remove(&self, file: &str) -> CaseResult {
        Ok(fs::remove_file(self.0.path().join(file))?)
    }

    fn change(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) -> CaseResult {
        let file = self.0.path().join(file);
        let mut content = fs::read(&file)?;
        change(&mut content);
        Ok(fs::write(file, content)?)
    }

    fn replace(&self, file: &str, from: &str, to: &str) -> CaseResult {
        let path = self.0.path().join(file);
        let content = fs::read_to_string(&path)?;
        assert!(content.contains(from), "{file} has {from}");
        Ok(fs::write(path, content.replace(from, to))?)
    }
}

async fn vectors(model: &LocalEmbedder, texts: &[&str]) -> memory_core::Result<Vec<Vec<f32>>> {
    let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
    model.embed(&texts).await
}

/// A text of this many words.
fn words(count: usize) -> String {
    let words = ["the", "cat", "adopted", "greenhouse", "Lima", "remembers", "unbelievably", "on", "Tuesday,", "2026"];
    (0..count).map(|at| words[(at * 7 + at / 10) % words.len()]).collect::<Vec<_>>().join(" ")
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
