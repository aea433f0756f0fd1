//! Pages of HTML for people: a frame, style and scripts, with the data in them. A page needs no network. The scripts
//! build it from the data, and never from text taken as HTML.

const FRAME: &str = include_str!("page.html");
const STYLE: &str = concat!(include_str!("style.css"), include_str!("views.css"));

/// What a report is shown by, in the order in which it is needed.
const REPORT: &[&str] = &[
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
];

const INDEX: &[&str] = &[include_str!("dom.js"), include_str!("index.js")];

/// A page that shows data; `None` if there is no such kind of page.
pub(crate) fn page(kind: &str, title: &str, json: &str) -> Option<String> {
    let scripts = match kind {
        "report" => REPORT,
        "index" => INDEX,
        _ => return None,
    };
    let parts =
        [("TITLE", text(title)), ("STYLE", STYLE.to_owned()), ("DATA", data(json)), ("SCRIPT", scripts.concat())];
    let mut page = String::with_capacity(FRAME.len() + STYLE.len() + json.len() + json.len() / 8);
    let mut rest = FRAME;
    // Each part is inserted once, and what it holds is not looked at again.
    for (name, part) in parts {
        let (before, behind) = rest.split_once(&format!("{{{{{name}}}}}"))?;
        page.push_str(before);
        page.push_str(&part);
        rest = behind;
    }
    page.push_str(rest);
    Some(page)
}

/// A text between tags.
fn text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// JSON inside a `script` element, which a `<` could end: JSON has such a character in strings alone, where it may be
/// written in another way.
fn data(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_code_cannot_end_the_data() {
        let page = page("report", "a <b> & c", r#"{"text": "</script><!-- {{SCRIPT}} &amp;"}"#).expect("a page");
        assert!(page.contains(r#"{"text": "\u003c/script\u003e\u003c!-- {{SCRIPT}} \u0026amp;"}"#));
        assert!(page.contains("<title>a &lt;b&gt; &amp; c</title>"));
        assert_eq!(page.matches("</script>").count(), 2);
    }

    #[test]
    fn there_are_two_kinds() {
        assert!(page("index", "", "{}").is_some());
        assert!(page("other", "", "{}").is_none());
    }
}
