module settled/conformance/go

go 1.26
