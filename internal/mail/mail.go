package mail

import (
	"context"
	"errors"
	"fmt"
	netmail "net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// ErrRefused reports a message that will not be taken however often it is sent
// again: it is malformed, or the server refused it for good.
var ErrRefused = errors.New("refused for good")

// maxSubject is what a line of a header, and the development box, can hold.
const maxSubject = 255

// Message is one mail to one person. It is its own form in the SQL outbox, as
// JSON.
type Message struct {
	To      string `json:"to"`      // a bare address: "ann@example.org"
	Subject string `json:"subject"` // one line of at most 255 characters
	Text    string `json:"text"`    // UTF-8, lines of any length
}

// Sender is an [*SMTP], a [*Box] or [None].
type Sender interface {
	// Send hands m over. An error that is not ErrRefused may pass: try again
	// later. A message may arrive twice when the answer to the first try was
	// lost.
	Send(ctx context.Context, m Message) error
}

// None is for a server without a mail server: it refuses each mail for good.
type None struct{}

// Send returns ErrRefused.
func (None) Send(context.Context, Message) error {
	return fmt.Errorf("mail: %w: there is no mail server", ErrRefused)
}

// Sent is a mail in the development box.
type Sent struct {
	To      string    `json:"to"`
	Subject string    `json:"subject"`
	Text    string    `json:"text"`
	At      time.Time `json:"at"`             // UTC, to the millisecond
	Code    string    `json:"code,omitempty"` // the first number of six digits in Text
}

// ASCII returns an address with its domain as mail servers know it: in lower case, and "xn--…" in place of letters beyond ASCII.
// One whose domain is none stays as it is.
func ASCII(address string) string {
	at := strings.LastIndexByte(address, '@') + 1
	if domain, err := idna.Lookup.ToASCII(address[at:]); err == nil && at > 0 {
		return address[:at] + domain
	}
	return address
}

// address parses m.To and checks that nothing in m could become a header line
// of its own.
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
