package web

import (
	"compress/gzip"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/swaggest/swgui/v5/static"
)

// docsPolicy allows only the parts of this page, none from other hosts. Swagger UI sets styles from its script.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var docsPage = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.}}: API</title>
<link rel="icon" type="image/png" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="stylesheet" href="/docs/look.css">
<div id="ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</html>
`))

// docsScript starts Swagger UI. validatorUrl null prevents it from sending the document to an online validator.
const docsScript = `SwaggerUIBundle({url: "/openapi.json", dom_id: "#ui", deepLinking: true, validatorUrl: null, persistAuthorization: false});
`

// docsStyle gives Swagger UI, which has no dark theme, the colours and fonts of the page (web/src/style.css).
const docsStyle = `body { background: #f6f1e8; color: #231d16; }
.swagger-ui, .swagger-ui .info p, .swagger-ui .opblock-tag { font-family: "Inter", system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: #231d16; }
.swagger-ui .info .title, .swagger-ui .opblock-tag { font-family: "Fraunces", "Iowan Old Style", Palatino, Georgia, serif; color: #231d16; }
.swagger-ui .scheme-container { background: #fffdf9; box-shadow: none; border-block: 1px solid #e4dac9; }
.swagger-ui .info a, .swagger-ui .btn.authorize { color: #b0401f; border-color: #b0401f; }
.swagger-ui .btn.authorize svg { fill: #b0401f; }
`

// docs serves the API description for people. Its files are gzipped in the binary, and are unpacked only for clients
// without gzip.
func docs(title string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", docsPolicy)
		name := r.PathValue("file")
		switch name {
		case "":
			h.Set("Content-Type", "text/html; charset=utf-8")
			_ = docsPage.Execute(w, title) // it fails only if the client has disconnected
		case "look.css":
			h.Set("Content-Type", "text/css; charset=utf-8")
			_, _ = io.WriteString(w, docsStyle)
		case "start.js":
			h.Set("Content-Type", "text/javascript; charset=utf-8")
			_, _ = io.WriteString(w, docsScript)
		case "favicon-32x32.png":
			http.ServeFileFS(w, r, static.FS, name)
		case "swagger-ui.css", "swagger-ui-bundle.js":
			servePacked(w, r, name)
		default:
			callOf(r.Context()).refuse(newProblem(http.StatusNotFound, errNoRoute))
		}
	})
}

// servePacked serves name from the compressed file name.gz.
func servePacked(w http.ResponseWriter, r *http.Request, name string) {
	f, err := static.FS.Open(name + ".gz")
	if err != nil {
		panic(err) // it is compiled in
	}
	defer func(f fs.File) { _ = f.Close() }(f)
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	if strings.HasSuffix(name, ".css") {
		h.Set("Content-Type", "text/css; charset=utf-8")
	}
	h.Set("Cache-Control", "max-age=3600")
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		_, _ = io.Copy(w, f)
		return
	}
	plain, err := gzip.NewReader(f)
	if err != nil {
		panic(err) // it is compiled in
	}
	_, _ = io.Copy(w, plain)
}
