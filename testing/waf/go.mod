// The OWASP core rules and their regression tests, which `cargo xtask waf` runs, pinned.
module forebay.invalid/testing/waf

go 1.24.6

require github.com/corazawaf/coraza-coreruleset/v4 v4.25.0
