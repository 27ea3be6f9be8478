//! The settings of a model, read from the files in its folder.

use std::fs;
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};

use memory_core::{Error, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Tells the user what to do if a file is missing.
const EXPECTED: &str = "name the folder of a sentence-transformers model with BERT architecture, which holds modules.json, config.json, \
    tokenizer.json, model.safetensors and 1_Pooling/config.json";

/// The files of a model, and how its vectors are computed.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) bert: BertConfig,
    pub(super) pooling: Pooling,
    /// Limit of a text, in tokens, including those that the tokenizer adds.
    pub(super) max_tokens: usize,
    pub(super) lowercases: bool,
    /// The readable part of the model's name.
    pub(super) label: String,
    pub(super) weights: PathBuf,
    pub(super) tokenizer: PathBuf,
}

/// The parts of `config.json` that the vectors depend on.
#[derive(Debug, Deserialize)]
pub(super) struct BertConfig {
    #[serde(rename = "hidden_size")]
    pub(super) width: usize,
    #[serde(rename = "intermediate_size")]
    pub(super) inner_width: usize,
    #[serde(rename = "num_attention_heads")]
    pub(super) heads: usize,
    #[serde(rename = "num_hidden_layers")]
    pub(super) layers: usize,
    #[serde(rename = "max_position_embeddings")]
    pub(super) positions: usize,
    #[serde(rename = "layer_norm_eps", default = "default_epsilon")]
    pub(super) epsilon: f32,
    #[serde(rename = "hidden_act", default)]
    pub(super) activation: Activation,
}

/// The function between the two layers of a feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) enum Activation {
    #[default]
    #[serde(rename = "gelu")]
    Gelu,
    #[serde(rename = "gelu_new", alias = "gelu_pytorch_tanh")]
    GeluTanh,
    #[serde(rename = "relu")]
    Relu,
}

/// How the vectors of the tokens are combined to the vector of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// The mean of all tokens.
    Mean,
    /// The first token.
    Cls,
}

/// The fields of `config.json` that are not in [`BertConfig`].
#[derive(Deserialize)]
struct Architecture {
    model_type: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    #[serde(rename = "_name_or_path", default)]
    name: String,
}

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    class: String,
    #[serde(default)]
    path: String,
}

#[derive(Default, Deserialize)]
struct Transformer {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

/// `1_Pooling/config.json`: newer models name one mode, older ones have a switch for each mode.
#[derive(Deserialize)]
#[serde(default)]
struct PoolingModes {
    pooling_mode: Option<String>,
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_max_tokens: bool,
    pooling_mode_mean_sqrt_len_tokens: bool,
    pooling_mode_weightedmean_tokens: bool,
    pooling_mode_lasttoken: bool,
}

impl Default for PoolingModes {
    fn default() -> Self {
        Self {
            pooling_mode: None,
            pooling_mode_cls_token: false,
            pooling_mode_mean_tokens: true,
            pooling_mode_max_tokens: false,
            pooling_mode_mean_sqrt_len_tokens: false,
            pooling_mode_weightedmean_tokens: false,
            pooling_mode_lasttoken: false,
        }
    }
}

impl Activation {
    /// Part of the name of a model, so it never changes.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_new",
            Self::Relu => "relu",
        }
    }
}

impl Pooling {
    /// Part of the name of a model, so it never changes.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Cls => "cls",
        }
    }
}

impl Settings {
    /// Reads the small files of a folder. Fails with `InvalidInput`, which names the file that is missing or unsupported.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let [transformer, pooling] = modules(folder)?;
        let config = transformer.join("config.json");
        let architecture: Architecture = json(&config)?;
        if architecture.model_type != "bert" {
            return Err(refused(
                &config,
                format!("the architecture is {:?}: only \"bert\" is supported", architecture.model_type),
            ));
        }
        if architecture.position_embedding_type != "absolute" {
            return Err(refused(&config, "only absolute position embeddings are supported"));
        }
        let bert: BertConfig = json(&config)?;
        let sizes = [bert.width, bert.inner_width, bert.heads, bert.layers, bert.positions];
        if sizes.contains(&0) || !bert.width.is_multiple_of(bert.heads) {
            return Err(refused(
                &config,
                "its sizes make no model: hidden_size must be a multiple of num_attention_heads, and none may be 0",
            ));
        }
        if !(bert.epsilon.is_finite() && bert.epsilon > 0.0) {
            return Err(refused(&config, "layer_norm_eps must be above 0"));
        }
        let limits = optional::<Transformer>(&transformer.join("sentence_bert_config.json"))?.unwrap_or_default();
        Ok(Self {
            max_tokens: limits.max_seq_length.unwrap_or(bert.positions).min(bert.positions),
            lowercases: limits.do_lower_case,
            pooling: pooling_of(&pooling.join("config.json"))?,
            label: label(&architecture.name),
            weights: transformer.join("model.safetensors"),
            tokenizer: transformer.join("tokenizer.json"),
            bert,
        })
    }
}

/// The folders of the transformer and of the pooling.
fn modules(folder: &Path) -> Result<[PathBuf; 2]> {
    let file = folder.join("modules.json");
    let modules: Vec<Module> = json(&file)?;
    // Modules are named by their Python classes, whose packages differ between versions.
    let classes: Vec<_> = modules.iter().map(|module| module.class.rsplit('.').next().unwrap_or_default()).collect();
    match classes[..] {
        ["Transformer", "Pooling"] | ["Transformer", "Pooling", "Normalize"] => {
            Ok([folder.join(&modules[0].path), folder.join(&modules[1].path)])
        }
        _ => Err(refused(&file, "only models of a Transformer, a Pooling and at most a Normalize are supported")),
    }
}

fn pooling_of(file: &Path) -> Result<Pooling> {
    let modes: PoolingModes = json(file)?;
    let switches = [
        (modes.pooling_mode_cls_token, "cls"),
        (modes.pooling_mode_mean_tokens, "mean"),
        (modes.pooling_mode_max_tokens, "max"),
        (modes.pooling_mode_mean_sqrt_len_tokens, "mean_sqrt_len_tokens"),
        (modes.pooling_mode_weightedmean_tokens, "weightedmean"),
        (modes.pooling_mode_lasttoken, "lasttoken"),
    ];
    let switched = || switches.iter().filter(|(is_on, _)| *is_on).map(|(_, mode)| *mode);
    let mode = modes.pooling_mode.unwrap_or_else(|| switched().collect::<Vec<_>>().join("+"));
    match mode.as_str() {
        "mean" => Ok(Pooling::Mean),
        "cls" => Ok(Pooling::Cls),
        _ => Err(refused(file, format!("pooling by {mode:?} is not supported: only by \"mean\" or \"cls\""))),
    }
}

/// The last part of what may be a path or the name of a repository, in characters that are safe in keys and logs.
fn label(name: &str) -> String {
    let last = name.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
    let is_plain = |character: &char| character.is_ascii_alphanumeric() || "-_.".contains(*character);
    let label: String = last.chars().filter(is_plain).take(64).collect();
    if label.is_empty() { "bert".to_owned() } else { label }
}

/// Reads a file. Fails with `InvalidInput`, which names the file and says what to do.
pub(super) fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).map_err(|error| unreadable(file, error))
}

pub(super) fn unreadable(file: &Path, error: std::io::Error) -> Error {
    let message = match error.kind() {
        IoErrorKind::NotFound | IoErrorKind::NotADirectory => format!("{} is missing: {EXPECTED}", file.display()),
        kind => format!("{} can't be read: {kind}", file.display()),
    };
    Error::invalid(message).with_source(error)
}

pub(super) fn refused(file: &Path, why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("{}: {why}", file.display()))
}

fn json<T: DeserializeOwned>(file: &Path) -> Result<T> {
    serde_json::from_slice(&read(file)?).map_err(|error| refused(file, &error).with_source(error))
}

fn optional<T: DeserializeOwned>(file: &Path) -> Result<Option<T>> {
    if file.exists() { json(file).map(Some) } else { Ok(None) }
}

fn default_epsilon() -> f32 {
    1e-12
}

fn absolute() -> String {
    "absolute".to_owned()
}

#[cfg(test)]
mod tests {
    use memory_core::ErrorKind;
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;

    /// The files of a small model, without tokenizer and weights.
    fn files() -> [(&'static str, Value); 4] {
        let class =
            |name: &str, path: &str| json!({ "type": format!("sentence_transformers.models.{name}"), "path": path });
        [
            (
                "modules.json",
                json!([class("Transformer", ""), class("Pooling", "1_Pooling"), class("Normalize", "2_Normalize")]),
            ),
            (
                "config.json",
                json!({
                    "_name_or_path": "/home/ana/models/mini LM/", "model_type": "bert", "hidden_act": "gelu", "hidden_size": 8,
                    "intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "max_position_embeddings": 64
                }),
            ),
            ("sentence_bert_config.json", json!({ "max_seq_length": 32, "do_lower_case": false })),
            ("1_Pooling/config.json", json!({ "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true })),
        ]
    }

    /// Reads the settings of a folder in which one file has another value, or is missing.
    fn with(changed: &str, value: Option<Value>) -> Result<Settings> {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir(folder.path().join("1_Pooling")).expect("a folder");
        for (name, content) in files() {
            let content = if name == changed { value.clone() } else { Some(content) };
            if let Some(content) = content {
                fs::write(folder.path().join(name), content.to_string()).expect("written");
            }
        }
        Settings::read(folder.path())
    }

    #[test]
    fn a_model_is_read() {
        let settings = with("", None).expect("a model");
        assert_eq!((settings.pooling, settings.max_tokens, settings.label.as_str()), (Pooling::Mean, 32, "miniLM"));
        assert_eq!((settings.bert.width, settings.bert.activation), (8, Activation::Gelu));
        let settings = with("sentence_bert_config.json", None).expect("a model without a limit of its own");
        assert_eq!(settings.max_tokens, 64);
        let settings = with("sentence_bert_config.json", Some(json!({ "max_seq_length": 512 }))).expect("a model");
        assert_eq!(settings.max_tokens, 64, "there are no more positions");
    }

    #[test]
    fn pooling_is_read_in_both_forms() {
        let pooling = |value| with("1_Pooling/config.json", Some(value)).map(|settings| settings.pooling);
        let cls = json!({ "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false });
        assert_eq!(pooling(cls).expect("by cls"), Pooling::Cls);
        assert_eq!(pooling(json!({ "pooling_mode": "cls" })).expect("by cls"), Pooling::Cls);
        assert_eq!(pooling(json!({})).expect("the default"), Pooling::Mean);
        for (unsupported, told) in [
            (json!({ "pooling_mode": "max" }), "\"max\""),
            (json!({ "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true }), "\"cls+mean\""),
        ] {
            let error = pooling(unsupported).expect_err("unsupported");
            assert!(error.message().contains(told), "{error}");
        }
    }

    #[test]
    fn what_is_missing_or_unsupported_is_named() {
        for missing in ["modules.json", "config.json", "1_Pooling/config.json"] {
            let error = with(missing, None).expect_err(missing);
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(
                error.message().contains(missing) && error.message().contains("is missing: name the folder"),
                "{error}"
            );
        }
        let [modules, config, ..] = files().map(|(_, content)| content);
        let changed = |key: &str, value: Value| {
            let mut config = config.clone();
            config[key] = value;
            ("config.json", config)
        };
        let mut dense = modules;
        dense[2]["type"] = json!("sentence_transformers.models.Dense");
        for (file, content) in [
            ("modules.json", dense),
            ("modules.json", json!({})),
            changed("model_type", json!("xlm-roberta")),
            changed("hidden_size", json!(9)),
            changed("hidden_size", json!(-8)),
            changed("num_attention_heads", json!(0)),
            changed("hidden_act", json!("swish")),
            changed("layer_norm_eps", json!(0)),
            changed("position_embedding_type", json!("relative_key")),
        ] {
            let error = with(file, Some(content.clone())).expect_err("unsupported");
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{content}");
            assert!(error.message().contains(file), "{error}");
        }
    }

    #[test]
    fn a_label_is_the_plain_last_part_of_a_name() {
        for (name, expected) in [
            ("nreimers/MiniLM-L6-H384-uncased", "MiniLM-L6-H384-uncased"),
            ("C:\\models\\e5\\", "e5"),
            ("", "bert"),
            ("/", "bert"),
            ("Modell größer", "Modellgrer"),
        ] {
            assert_eq!(label(name), expected);
        }
    }
}
