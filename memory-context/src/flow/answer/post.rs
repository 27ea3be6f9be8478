//! What an agent posts.

use std::fmt;
use std::sync::LazyLock;

use super::Mistake;
use super::extract::extract;
use super::fields::Fields;
use super::shape::Shape;

/// A post.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostAnswer {
    /// Why.
    pub thought: String,
    /// The text.
    pub post: String,
    /// What a picture with it might show; may be empty.
    pub image_prompt: String,
}

static SHAPE: LazyLock<Shape> = LazyLock::new(|| Shape::new(&["thought", "post", "imagePrompt"], &[]));

impl PostAnswer {
    /// Reads what a model wrote. Thought and post must be there.
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
    /// Payloads stay out of logs: only the size shows.
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
