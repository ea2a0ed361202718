// Package pages serves the page at the root of a Stoa server: a daily check-in
// in the browser, which uses the same HTTP interface as everybody else.
//
// The sources are TypeScript and CSS under src; what is served is dist, which
// Vite builds from them and which is kept in the tree, so that building the
// server needs no Node. README.md says how to build it.
package pages

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/httpapi/assets"
)

//go:embed dist
var dist embed.FS

// policy allows only what the page needs. It has no inline scripts or styles, and no frame around the page. Other hosts are allowed
// only for the videos of rooms. No text becomes markup, and the worker has the only address of a script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; media-src 'self' https:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types stoa-worker"

// types are fixed here, as the tables of the operating system differ.
var types = map[string]string{
	".html":  "text/html; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".css":   "text/css; charset=utf-8",
	".svg":   "image/svg+xml",
	".woff2": "font/woff2",
	".webm":  "video/webm",
}

// Patterns are the routes of the page, as http.ServeMux has them.
var Patterns = []string{"GET /{$}", "GET /sw.js", "GET /assets/", "GET " + api.RoomSample}

// Handler serves the page at "/", its worker at "/sw.js", the sample video of rooms at [api.RoomSample] and its parts
// under "/assets/"; mount it on every one of [Patterns]. Other paths are 404, other methods than GET and HEAD
// 405. The names of the parts have a hash of their content: browsers
// keep them for a year. They ask for the page itself each time, by its ETag.
func Handler() http.Handler {
	files := load()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		f.ServeHTTP(w, r)
	})
}

// load reads dist into memory by URL path. The files are part of the program:
// one that cannot be read, or has no type above, is a fault of the build.
func load() map[string]*assets.File {
	files := make(map[string]*assets.File)
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		kind, ok := types[path.Ext(name)]
		if !ok {
			panic("pages: no content type for " + name)
		}
		head := http.Header{
			"Content-Type":           {kind},
			"X-Content-Type-Options": {"nosniff"},
		}
		url := strings.TrimPrefix(name, "dist")
		if url == "/index.html" {
			url = "/"
			head.Set("Cache-Control", "no-cache")
			head.Set("Content-Security-Policy", policy)
			head.Set("Referrer-Policy", "no-referrer")
			head.Set("Cross-Origin-Opener-Policy", "same-origin")
			head.Set("Permissions-Policy", "camera=(self), geolocation=(), microphone=(self)")
		} else if url == "/sw.js" { // browsers look for a newer one by its address
			head.Set("Cache-Control", "no-cache")
			head.Set("Content-Security-Policy", "default-src 'none'")
		} else if url == api.RoomSample { // its address stays the same: playlists have it
			head.Set("Cache-Control", "public, max-age=86400")
		} else {
			head.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		files[url] = assets.New(data, head)
		return nil
	})
	if err != nil {
		panic("pages: " + err.Error())
	}
	return files
}
