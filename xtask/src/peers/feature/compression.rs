//! Responses that are compressed.

use anyhow::{Result, ensure};

use super::{Case, Directives, Feature, Manifests, Scene};
use crate::ask::Question;
use crate::peers::contents;

/// All contents in turn, by a coding at a level.
pub(crate) fn compressed(coding: &'static str, level: u8) -> Case {
    let (name, module) = match coding {
        "br" => ("brotli", Some("ngx_http_brotli_filter_module.so")),
        "zstd" => ("zstd", Some("ngx_http_zstd_filter_module.so")),
        _ => ("gzip", None),
    };
    // What ingress-nginx says besides; the other modules have no such words.
    let of_gzip = if module.is_none() { "      gzip_proxied any; gzip_vary on;\n" } else { "" };
    let location = format!(
        "      {name} on; {name}_comp_level {level}; {name}_min_length 256;\n      \
         {name}_types application/json application/javascript;\n{of_gzip}"
    );
    let types = "text/html application/json application/javascript";
    let apache = match coding {
        "br" => {
            format!("AddOutputFilterByType BROTLI_COMPRESS {types}\nBrotliCompressionQuality {level}\n")
        }
        _ => format!("AddOutputFilterByType DEFLATE {types}\nDeflateCompressionLevel {level}\n"),
    };
    // It has names for zstd's levels, of which the one by default is 3.
    let caddy = if coding == "zstd" { "zstd default".to_owned() } else { format!("gzip {level}") };
    let caddy = format!("  encode {{\n    {caddy}\n    minimum_length 256\n  }}\n");
    Case {
        feature: Feature {
            apache,
            caddy,
            directives: Directives {
                modules: module.into_iter().collect(),
                location,
                ..Directives::default()
            },
            manifests: Manifests {
                // Levels stay what they are, or what is compared would not be the same.
                settings: vec![("forebay-compression-adaptive", "false".into())],
                annotations: vec![("forebay.io/compression", format!("{coding}:{level}"))],
                ..Manifests::default()
            },
        },
        rate_per_second: 40.0,
        path: "/{}",
        headers: vec![("Accept-Encoding", coding.into())],
        variants: |_| Ok(contents::ALL.map(|(name, _)| name.to_owned()).into()),
        check: check_compressed,
        ..Case::default()
    }
}

fn check_compressed(scene: &Scene) -> Result<()> {
    for (name, _) in contents::ALL {
        let codings = ["gzip", "br", "zstd"].map(|coding| {
            let headers = &[("Accept-Encoding", coding)];
            let path = &format!("/{name}");
            let answer = scene.ask(&Question { method: "HEAD", path, headers, ..Question::default() })?;
            Ok::<_, anyhow::Error>(answer.header("Content-Encoding") == Some(coding))
        });
        let compressed = codings.into_iter().collect::<Result<Vec<_>>>()?;
        ensure!(compressed.contains(&true), "{name} is not compressed");
    }
    Ok(())
}
