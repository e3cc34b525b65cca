module forebay.example/adversary/endpoint

go 1.25
