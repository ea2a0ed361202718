package mail

import (
	"context"
	"errors"
	"fmt"
	netmail "net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/stoa-dev/stoa/api"
)

// ErrRefused reports a message that every retry would fail to send: it is malformed, or the server refused it
// permanently.
var ErrRefused = errors.New("refused permanently")

// maxSubject is the largest number of characters of a subject: the limit of a header line and of the development box.
const maxSubject = 255

// Message is one mail to one person. Its JSON is its form in the SQL outbox.
type Message struct {
	To      string `json:"to"`      // a bare address: "ann@example.org"
	Subject string `json:"subject"` // one line of at most 255 characters
	Text    string `json:"text"`    // UTF-8, lines of any length
}

// Sender is an [*SMTP], a [*Box] or [None].
type Sender interface {
	// Send sends m. An error other than ErrRefused may be temporary: retry later. A message may arrive twice if the
	// reply to the first try was lost.
	Send(ctx context.Context, m Message) error
}

// None is for a deployment without a mail server: it refuses each mail permanently.
type None struct{}

// Send returns ErrRefused.
func (None) Send(context.Context, Message) error {
	return fmt.Errorf("mail: %w: there is no mail server", ErrRefused)
}

// Sent is a mail in the development box.
type Sent struct {
	To      string   `json:"to"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
	At      api.Time `json:"at"`
	Code    string   `json:"code,omitempty"` // the first six-digit number in Text
}

// ASCII returns an address with its domain in the form of mail servers: in lower case, and "xn--…" instead of
// non-ASCII letters. An address with an invalid domain is returned unchanged.
func ASCII(address string) string {
	at := strings.LastIndexByte(address, '@') + 1
	if domain, err := idna.Lookup.ToASCII(address[at:]); err == nil && at > 0 {
		return address[:at] + domain
	}
	return address
}

// address parses m.To and checks that no part of m can become another header line.
func (m Message) address() (*netmail.Address, error) {
	to, err := netmail.ParseAddress(m.To)
	switch {
	case err != nil || to.Name != "" || to.Address != m.To || hasControl(m.To):
		return nil, fmt.Errorf("mail: %w: the recipient is not one bare address", ErrRefused)
	case hasControl(m.Subject) || !utf8.ValidString(m.Subject) || utf8.RuneCountInString(m.Subject) > maxSubject:
		return nil, fmt.Errorf("mail: %w: the subject is not one line of at most %d characters", ErrRefused, maxSubject)
	case !utf8.ValidString(m.Text):
		return nil, fmt.Errorf("mail: %w: the text is not UTF-8", ErrRefused)
	}
	return to, nil
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }
