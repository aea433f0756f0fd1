//! HTML pages for people: a frame, styles and scripts, together with the data. A page needs no network. The scripts
//! build the page from the data, and never treat a text of the data as HTML.

use minijinja::{context, AutoEscape, Environment, Error};
use once_cell::sync::Lazy;

const STYLE: &str = concat!(include_str!("style.css"), include_str!("views.css"));

/// The scripts of a report, in the order in which they are loaded.
const REPORT: &[&str] = &[
    include_str!("kept/dagre.min.js"),
    concat!(
        include_str!("dom.js"),
        include_str!("data.js"),
        include_str!("overview.js"),
        include_str!("findings.js"),
        include_str!("source.js"),
        include_str!("tree.js"),
        include_str!("layout.js"),
        include_str!("picture.js"),
        include_str!("translation.js"),
        include_str!("main.js"),
    ),
];

const INDEX: &[&str] = &[concat!(include_str!("dom.js"), include_str!("index.js"))];

static TEMPLATES: Lazy<Environment<'static>> = Lazy::new(|| {
    let mut templates = Environment::new();
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    templates
});

/// Renders a page that shows the data; `None` if there is no such kind of page.
pub(crate) fn page(kind: &str, title: &str, json: &str) -> Result<Option<String>, Error> {
    let scripts = match kind {
        "report" => REPORT,
        "index" => INDEX,
        _ => return Ok(None),
    };
    let values = context! { title, style => STYLE, data => data(json), scripts };
    TEMPLATES.render_str(include_str!("page.html"), values).map(Some)
}

/// Escapes JSON for a `script` element, which a `<` could end. JSON has this character only in strings, where it may
/// be written as an escape.
fn data(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_code_cannot_end_the_data() {
        let page = page("report", "a <b> & c", r#"{"text": "</script><!-- {{ title }} &amp;"}"#)
            .ok()
            .flatten()
            .expect("a page");
        assert!(page.contains(r#"{"text": "\u003c/script\u003e\u003c!-- {{ title }} \u0026amp;"}"#));
        assert!(page.contains("<title>a &lt;b&gt; &amp; c</title>"));
        assert_eq!(page.matches("</script>").count(), 3);
    }

    #[test]
    fn there_are_two_kinds() {
        let is_page = |kind| page(kind, "", "{}").expect("the template is right").is_some();
        assert_eq!([is_page("report"), is_page("index"), is_page("other")], [true, true, false]);
    }
}
