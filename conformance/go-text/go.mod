module settled/conformance/go-text

go 1.26
