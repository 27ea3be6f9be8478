//! The answer of a model that writes a post.

use std::fmt;
use std::sync::LazyLock;

use super::Mistake;
use super::extract::extract;
use super::fields::Fields;
use super::shape::Shape;

/// The answer of a model that writes a post.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostAnswer {
    /// The model's reason.
    pub thought: String,
    /// The text of the post.
    pub post: String,
    /// A prompt for a picture with the post; may be empty.
    pub image_prompt: String,
}

static SHAPE: LazyLock<Shape> = LazyLock::new(|| Shape::new(&["thought", "post", "imagePrompt"], &[]));

impl PostAnswer {
    /// Parses the text of a model. Thought and post are required.
    pub fn parse(answer: &str) -> Result<Self, Mistake> {
        let values = extract(answer, &SHAPE)?;
        let mut fields = Fields::new(&values);
        let (thought, post) = (fields.required("thought")?, fields.required("post")?);
        let image_prompt = fields.text("imagePrompt")?;
        fields.finish()?;
        Ok(Self { thought, post, image_prompt })
    }
}

impl fmt::Debug for PostAnswer {
    /// Shows only the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostAnswer({} bytes)", self.post.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_has_a_text_and_perhaps_a_picture() {
        for (answer, image_prompt) in [
            ("<response><thought>t</thought><post>a & b</post><imagePrompt>sea</imagePrompt></response>", "sea"),
            (r#"{"thought":"t","post":"a & b"}"#, ""),
        ] {
            let post = PostAnswer::parse(answer).expect(answer);
            assert_eq!(
                (post.thought.as_str(), post.post.as_str(), post.image_prompt.as_str()),
                ("t", "a & b", image_prompt)
            );
        }
        let missing = PostAnswer::parse("<response><imagePrompt>sea</imagePrompt></response>").expect_err("no post");
        assert_eq!(missing.to_string(), "missing: thought, post");
    }
}
