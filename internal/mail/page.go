package mail

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var page = template.Must(template.New("page").Parse(pageHTML))

// pagePolicy allows only the page's own style, by its hash.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// Handler serves the box at /dev/mail as a page. At /dev/mail.json, and to clients that accept JSON rather than HTML,
// it serves a JSON array of [Sent]. The parameter to=ADDRESS selects the mails to one address. Use it only during
// development.
//
// It serves only requests that a program on this machine sent to this machine: from a loopback address, to a loopback
// name or address, and without headers of a proxy. So a page of another site cannot read the mails through its
// visitor's browser by DNS rebinding, and a proxy in front cannot publish them.
func (b *Box) Handler(log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r) {
			http.Error(w, "Mails are shown only on the server's machine. Open localhost without a proxy.", http.StatusMisdirectedRequest)
			return
		}
		to := strings.TrimSpace(r.URL.Query().Get("to"))
		mails, err := b.Newest(r.Context(), to)
		if err != nil {
			log.ErrorContext(r.Context(), "mail: development mails not read", slog.Any("err", err))
			http.Error(w, "The mails cannot be read. Try again later.", http.StatusServiceUnavailable)
			return
		}
		var body bytes.Buffer
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Vary", "Accept")
		if strings.HasSuffix(r.URL.Path, ".json") || wantsJSON(r.Header.Get("Accept")) {
			h.Set("Content-Type", "application/json")
			err = json.NewEncoder(&body).Encode(mails)
		} else {
			h.Set("Content-Type", "text/html; charset=utf-8")
			h.Set("Content-Security-Policy", pagePolicy)
			err = page.Execute(&body, map[string]any{"Style": template.CSS(pageCSS), "To": to, "Mails": mails})
		}
		if err != nil {
			log.ErrorContext(r.Context(), "mail: development mails not rendered", slog.Any("err", err))
			http.Error(w, "The mails cannot be shown.", http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(body.Bytes()) // the client may have disconnected
	})
}

// proxyHeaders are the headers that proxies set to describe their clients.
var proxyHeaders = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

// local reports whether a request came from this machine and was addressed to it.
func local(r *http.Request) bool {
	for _, h := range proxyHeaders {
		if len(r.Header.Values(h)) > 0 {
			return false
		}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return false
	}
	name := (&url.URL{Host: r.Host}).Hostname()
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

func wantsJSON(accept string) bool {
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}
