//! The parts of an exchange that the audit log has beside its matches. They are copied once the exchange is
//! over, of exchanges that are logged, as far as `SecAuditLogParts` wants them.
//!
//! Never in here: the form of the log.

use super::Transaction;
use super::store::Bag;
use crate::body::Processor;
use crate::limits::AUDIT_BODY_BYTES_MAX;
use crate::report::{AuditBody, AuditParts};
use crate::variables::Variable;

impl Transaction {
    /// The parts that are wanted.
    pub(super) fn audit_parts(&self) -> AuditParts {
        let wants = |letters: &[char]| self.report.audit_parts.contains(letters);
        AuditParts {
            request_body: wants(&['C', 'I']).then(|| self.audit_request_body()).flatten(),
            response_headers: if wants(&['F']) { self.audit_response_headers() } else { Vec::new() },
            response_body: wants(&['E']).then(|| self.audit_response_body()).flatten(),
        }
    }

    /// The body as it came; of a multipart body its fields, without its files.
    fn audit_request_body(&self) -> Option<AuditBody> {
        if self.store.processor == Some(Processor::Multipart) {
            return self.audit_fields();
        }
        let kept = self.store.single(Variable::StreamInputBody).map(|text| self.store.texts.get(text));
        // A verdict may come while the body does.
        let body = kept.unwrap_or(&self.request_body);
        let is_form = self.store.processor == Some(Processor::UrlEncoded);
        (!body.is_empty()).then(|| AuditBody { is_form, ..bounded(body, self.store.request_body_bytes) })
    }

    /// The fields of the body, as a form.
    fn audit_fields(&self) -> Option<AuditBody> {
        let mut form = Vec::new();
        for field in self.store.bag(Bag::ArgsPost) {
            if !form.is_empty() {
                form.push(b'&');
            }
            escape(self.store.texts.get(field.name), &mut form);
            form.push(b'=');
            escape(self.store.texts.get(field.value), &mut form);
            if form.len() > AUDIT_BODY_BYTES_MAX {
                break;
            }
        }
        (!form.is_empty()).then(|| AuditBody { is_form: true, ..bounded(&form, form.len()) })
    }

    fn audit_response_headers(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let text = |id| self.store.texts.get(id).to_vec();
        let headers = self.store.bag(Bag::ResponseHeaders).iter();
        headers.map(|field| (text(field.name), text(field.value))).collect()
    }

    fn audit_response_body(&self) -> Option<AuditBody> {
        let whole = self.store.response_body_bytes;
        let body = match self.store.single(Variable::ResponseBody) {
            Some(text) => self.store.texts.get(text),
            None => &self.response_body,
        };
        (!body.is_empty()).then(|| bounded(body, whole))
    }
}

fn bounded(body: &[u8], whole: usize) -> AuditBody {
    let content = body[..body.len().min(AUDIT_BODY_BYTES_MAX)].to_vec();
    AuditBody { is_cut: content.len() < whole, content, is_form: false }
}

/// Appends a name or a value with the escapes of a form.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}
