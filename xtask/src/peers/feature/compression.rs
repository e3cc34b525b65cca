//! Responses that are compressed.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Case, Directives, Feature, Manifests, Scene};
use crate::ask::Question;
use crate::peers::contents;
use crate::peers::proxy::envoy_extension;

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
            envoy: vec![compressor(coding, level)],
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

/// Envoy's filter. Its windows are as large as nginx's, which its defaults are not.
fn compressor(coding: &str, level: u8) -> Value {
    let (name, kind, options) = match coding {
        "br" => ("brotli", "Brotli", json!({ "quality": level, "window_bits": 19 })),
        "zstd" => ("zstd", "Zstd", json!({ "compression_level": level })),
        _ => {
            let level = format!("COMPRESSION_LEVEL_{level}");
            ("gzip", "Gzip", json!({ "compression_level": level, "memory_level": 8, "window_bits": 15 }))
        }
    };
    let common = json!({
        "min_content_length": 256,
        "content_type": ["text/html", "application/json", "application/javascript"],
    });
    let library =
        envoy_extension(name, &format!("extensions.compression.{name}.compressor.v3.{kind}"), options);
    let config =
        json!({ "response_direction_config": { "common_config": common }, "compressor_library": library });
    envoy_extension("compressor", "extensions.filters.http.compressor.v3.Compressor", config)
}

fn check_compressed(scene: &Scene) -> Result<()> {
    for (name, _) in contents::ALL {
        let codings = ["gzip", "br", "zstd"].map(|coding| {
            let headers = &[("Accept-Encoding", coding)];
            let path = &format!("/{name}");
            let answer = scene.ask(&Question { path, headers, ..Question::default() })?;
            Ok::<_, anyhow::Error>(answer.header("Content-Encoding") == Some(coding))
        });
        let compressed = codings.into_iter().collect::<Result<Vec<_>>>()?;
        ensure!(compressed.contains(&true), "{name} is not compressed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envoy_has_the_level_that_is_asked_for() {
        let library = |coding, level| compressor(coding, level)["typed_config"]["compressor_library"].clone();
        assert_eq!(library("gzip", 6)["typed_config"]["compression_level"], "COMPRESSION_LEVEL_6");
        assert_eq!(library("br", 4)["typed_config"]["quality"], 4);
        assert_eq!(library("zstd", 3)["typed_config"]["compression_level"], 3);
        let kind = "type.googleapis.com/envoy.extensions.compression.zstd.compressor.v3.Zstd";
        assert_eq!(library("zstd", 3)["typed_config"]["@type"], kind);
    }
}
