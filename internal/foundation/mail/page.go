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

// pagePolicy allows the page its own style, by its hash, and nothing else.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// Handler serves the box to people at /dev/mail, and as a JSON array of [Sent]
// at /dev/mail.json or to whoever accepts JSON rather than HTML. The parameter
// to=ADDRESS leaves out mails to others. Mount it only during development.
//
// It answers to addresses and to names that no stranger can have, such as
// localhost: a page of another site whose name was made to lead here (DNS
// rebinding) cannot read the mails through its visitor's browser.
func (b *Box) Handler(log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownName(r.Host) {
			http.Error(w, "Mails are shown under localhost, an address, or a name without a dot.", http.StatusMisdirectedRequest)
			return
		}
		to := strings.TrimSpace(r.URL.Query().Get("to"))
		mails, err := b.Newest(r.Context(), to)
		if err != nil {
			log.ErrorContext(r.Context(), "the development mails cannot be read", slog.Any("error", err))
			http.Error(w, "The mails cannot be read just now.", http.StatusServiceUnavailable)
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
			log.ErrorContext(r.Context(), "the development mails cannot be shown", slog.Any("error", err))
			http.Error(w, "The mails cannot be shown.", http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(body.Bytes()) // a reader who has gone is nobody's loss
	})
}

// ownName reports whether a Host header is an address or a name that is not one of
// the Domain Name System.
func ownName(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name != "" && (!strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost") || strings.HasSuffix(name, ".local"))
}

func wantsJSON(accept string) bool {
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}
