// The origin behind Forebay for clients of many languages, and Go's own client. Nothing but Go's library.
module forebay.invalid/testing/clients

go 1.25.0
