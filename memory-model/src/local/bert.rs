//! The transformer: BERT, from tokens to a vector for each of them.
//!
//! The tokens of all texts of a pass are the rows of one matrix, text after text. So nothing is padded or masked, short texts cost
//! nothing extra beside long ones, and only attention needs to know where each text begins.

use std::f32::consts::{FRAC_1_SQRT_2, PI};
use std::ops::Range;

use memory_core::Result;
use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, Axis, Zip, concatenate, s};

use super::settings::{Activation, BertConfig};
use super::weights::Weights;

/// A model with its weights.
pub(super) struct Bert {
    /// A row for each token of the vocabulary.
    words: Array2<f32>,
    /// A row for each position in a text. It includes the embedding of token type 0, which all tokens have.
    positions: Array2<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    heads: usize,
    activation: Activation,
}

struct Layer {
    /// Queries, keys and values side by side.
    attention: Linear,
    attended: Linear,
    attention_norm: Norm,
    grow: Linear,
    shrink: Linear,
    norm: Norm,
}

struct Linear {
    /// A row for each input and a column for each output, so that multiplication reads memory in order.
    weights: Array2<f32>,
    bias: Array1<f32>,
}

struct Norm {
    scale: Array1<f32>,
    shift: Array1<f32>,
    epsilon: f32,
}

impl Bert {
    /// Takes the weights of a model out of those of its file.
    pub(super) fn new(config: &BertConfig, weights: &mut Weights) -> Result<Self> {
        let words = weights.rows("embeddings.word_embeddings.weight", config.width)?;
        let types = weights.rows("embeddings.token_type_embeddings.weight", config.width)?;
        let mut positions =
            weights.matrix("embeddings.position_embeddings.weight", [config.positions, config.width])?;
        if let Some(first) = types.outer_iter().next() {
            positions += &first;
        }
        let norm = Norm::new(config, weights, "embeddings.LayerNorm")?;
        let layers = (0..config.layers).map(|layer| Layer::new(config, weights, layer)).collect::<Result<_>>()?;
        Ok(Self { words, positions, norm, layers, heads: config.heads, activation: config.activation })
    }

    /// The size of the vocabulary: ids of tokens are below it.
    pub(super) fn vocabulary(&self) -> usize {
        self.words.nrows()
    }

    /// Returns a row for each token of these texts, text after text. No text may have more tokens than there are positions, and no id
    /// may be outside of the vocabulary.
    pub(super) fn run(&self, texts: &[Vec<u32>]) -> Array2<f32> {
        let mut rows = Array2::zeros((texts.iter().map(Vec::len).sum(), self.words.ncols()));
        let tokens = texts.iter().flat_map(|text| text.iter().zip(self.positions.outer_iter()));
        for (mut row, (token, position)) in rows.outer_iter_mut().zip(tokens) {
            row.assign(&self.words.row(*token as usize));
            row += &position;
        }
        self.norm.apply(&mut rows);
        let places = places(texts);
        for layer in &self.layers {
            let attended = self.attend(&places, &layer.attention.apply(&rows));
            rows += &layer.attended.apply(&attended);
            layer.attention_norm.apply(&mut rows);
            let mut inner = layer.grow.apply(&rows);
            self.activation.apply(&mut inner);
            rows += &layer.shrink.apply(&inner);
            layer.norm.apply(&mut rows);
        }
        rows
    }

    /// Attention of all heads, within each text.
    fn attend(&self, places: &[Range<usize>], attention: &Array2<f32>) -> Array2<f32> {
        let width = self.words.ncols();
        let head_width = width / self.heads;
        let scale = (head_width as f32).sqrt().recip();
        let mut attended = Array2::zeros((attention.nrows(), width));
        for place in places {
            for start in (0..width).step_by(head_width) {
                let part = |from: usize| attention.slice(s![place.clone(), from + start..from + start + head_width]);
                let mut weights = part(0).dot(&part(width).t());
                for mut row in weights.outer_iter_mut() {
                    let highest = row.fold(f32::NEG_INFINITY, |highest, value| highest.max(*value));
                    row.mapv_inplace(|value| ((value - highest) * scale).exp());
                    let sum = row.sum();
                    row /= sum;
                }
                let mut head = attended.slice_mut(s![place.clone(), start..start + head_width]);
                general_mat_mul(1.0, &weights, &part(2 * width), 0.0, &mut head);
            }
        }
        attended
    }
}

impl Layer {
    fn new(config: &BertConfig, weights: &mut Weights, layer: usize) -> Result<Self> {
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        let mut linear = |part: &str, inputs, outputs| Linear::new(weights, &name(part), inputs, outputs);
        let mut part = |which: &str| linear(&format!("attention.self.{which}"), config.width, config.width);
        let [query, key, value] = [part("query")?, part("key")?, part("value")?];
        Ok(Self {
            attention: Linear::side_by_side(&[query, key, value]),
            attended: linear("attention.output.dense", config.width, config.width)?,
            grow: linear("intermediate.dense", config.width, config.inner_width)?,
            shrink: linear("output.dense", config.inner_width, config.width)?,
            attention_norm: Norm::new(config, weights, &name("attention.output.LayerNorm"))?,
            norm: Norm::new(config, weights, &name("output.LayerNorm"))?,
        })
    }
}

impl Linear {
    fn new(weights: &mut Weights, name: &str, inputs: usize, outputs: usize) -> Result<Self> {
        let stored = weights.matrix(&format!("{name}.weight"), [outputs, inputs])?;
        Ok(Self {
            weights: stored.t().as_standard_layout().into_owned(),
            bias: weights.vector(&format!("{name}.bias"), outputs)?,
        })
    }

    /// Joins layers with the same inputs into one, with the outputs of all in order.
    fn side_by_side(parts: &[Self]) -> Self {
        let weights: Vec<_> = parts.iter().map(|part| part.weights.view()).collect();
        let bias: Vec<_> = parts.iter().map(|part| part.bias.view()).collect();
        let weights = concatenate(Axis(1), &weights).expect("as many rows in each");
        let weights = weights.as_standard_layout().into_owned();
        Self { weights, bias: concatenate(Axis(0), &bias).expect("vectors") }
    }

    fn apply(&self, rows: &Array2<f32>) -> Array2<f32> {
        let mut made = Array2::zeros((rows.nrows(), self.bias.len()));
        made += &self.bias;
        general_mat_mul(1.0, rows, &self.weights, 1.0, &mut made);
        made
    }
}

impl Norm {
    fn new(config: &BertConfig, weights: &mut Weights, name: &str) -> Result<Self> {
        Ok(Self {
            scale: weights.vector(&format!("{name}.weight"), config.width)?,
            shift: weights.vector(&format!("{name}.bias"), config.width)?,
            epsilon: config.epsilon,
        })
    }

    /// Brings each row to a mean of 0 and a variance of 1, then scales and shifts it.
    fn apply(&self, rows: &mut Array2<f32>) {
        let width = rows.ncols() as f32;
        for mut row in rows.outer_iter_mut() {
            row -= row.sum() / width;
            let variance = row.dot(&row) / width;
            let factor = (variance + self.epsilon).sqrt().recip();
            Zip::from(&mut row).and(&self.scale).and(&self.shift).for_each(|value, scale, shift| {
                *value = *value * factor * scale + shift;
            });
        }
    }
}

impl Activation {
    fn apply(self, values: &mut Array2<f32>) {
        match self {
            Self::Gelu => values.mapv_inplace(gelu),
            Self::GeluTanh => values.mapv_inplace(gelu_tanh),
            Self::Relu => values.mapv_inplace(|x| x.max(0.0)),
        }
    }
}

fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))
}

fn gelu_tanh(x: f32) -> f32 {
    0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh())
}

/// The error function, with an error below 5e-7: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let sum = ((((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_8) * t - 0.284_496_72) * t + 0.254_829_6) * t;
    (1.0 - sum * (-x * x).exp()).copysign(x)
}

/// The rows of each text.
pub(super) fn places(texts: &[Vec<u32>]) -> Vec<Range<usize>> {
    let mut end = 0;
    let place = |text: &Vec<u32>| {
        let start = end;
        end += text.len();
        start..end
    };
    texts.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn activations_have_known_values() {
        for (x, expected) in
            [(0.0, 0.0), (0.1, 0.112_462_92), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3), (9.0, 1.0)]
        {
            assert!((erf(x) - expected).abs() < 5e-7, "erf({x}) is {}", erf(x));
            assert!((erf(-x) + expected).abs() < 5e-7, "erf(-{x}) is {}", erf(-x));
        }
        for (activation, x, expected) in [
            (Activation::Gelu, 1.0, 0.841_344_7),
            (Activation::Gelu, -2.0, -0.045_500_26),
            (Activation::GeluTanh, 1.0, 0.841_192),
            (Activation::Relu, -2.0, 0.0),
        ] {
            let mut values = array![[x]];
            activation.apply(&mut values);
            assert!(are_near(&values, &array![[expected]]), "{activation:?} of {x} is {values}");
        }
    }

    #[test]
    fn a_norm_has_mean_and_variance() {
        let norm = Norm { scale: array![1.0, 2.0], shift: array![0.0, 1.0], epsilon: 1e-12 };
        let mut rows = array![[1.0, 3.0], [7.0, 5.0]];
        norm.apply(&mut rows);
        assert!(are_near(&rows, &array![[-1.0, 3.0], [1.0, -1.0]]), "{rows}");
    }

    fn are_near(a: &Array2<f32>, b: &Array2<f32>) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() < 2e-6)
    }
}
