package push

import (
	"cmp"
	"crypto/ecdh"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/messaging"
)

// Errors of the domain.
var (
	ErrEndpoint = errs.New(errs.Invalid, "push.endpoint", "The endpoint must be an https address of a push service.")
	ErrKeys     = errs.New(errs.Invalid, "push.keys", "The subscription's keys are invalid. Subscribe again.")
	ErrStore    = errs.New(errs.Unavailable, "push.store_away", "Pushes cannot be reached right now. Please try again.").Retry(2 * time.Second)
)

// Settings are the operator's settings; 0 means the default.
type Settings struct {
	Contact string        `koanf:"contact" help:"how push services reach the operator: an address, or https://…; empty: public_url where that is https, else the address of smtp.from, else nobody@localhost, which Apple refuses"`
	Pause   time.Duration `koanf:"pause" default:"30s" help:"how long further messages of a chat wait after a push, and become one, at most an hour"`
	Private bool          `koanf:"private" default:"false" help:"send to endpoints in private networks, too: for your own push services"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	config.Defaults(&c)
	address, err := mail.ParseAddress(c.mailbox())
	return errors.Join(
		config.Refuse(c.Pause < time.Second || c.Pause > time.Hour, "pause", "%s is not between a second and an hour", c.Pause),
		config.Refuse(c.Contact != "" && !strings.HasPrefix(c.Contact, "https://") && (err != nil || address.Address != c.mailbox()), "contact",
			"is neither an e-mail address nor an https address"))
}

// Subscription is the push subscription of a browser on a device of a user.
type Subscription struct {
	User     accounts.ID
	Device   accounts.DeviceID
	Endpoint string
	P256DH   string // base64url
	Auth     string // base64url
	Created  int64  // Unix ms
}

// hash returns an identifier of the endpoint.
func (s Subscription) hash() string {
	sum := sha256.Sum256([]byte(s.Endpoint))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// check returns ErrEndpoint or ErrKeys for an invalid subscription.
func (s Subscription) check() error {
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || len(s.Endpoint) > 1000 {
		return ErrEndpoint.On("body.endpoint", "is no https address of at most 1,000 characters")
	}
	point, pointErr := decode(s.P256DH)
	auth, authErr := decode(s.Auth)
	if errors.Join(pointErr, authErr) != nil || len(auth) != 16 {
		return ErrKeys
	}
	if _, err := ecdh.P256().NewPublicKey(point); err != nil {
		return ErrKeys
	}
	return nil
}

// sameKeys reports whether two subscriptions have the same keys, which a browser reveals only to its own page.
func (s Subscription) sameKeys(other Subscription) bool {
	keys := func(s Subscription) []byte {
		point, _ := decode(s.P256DH)
		auth, _ := decode(s.Auth)
		return append(point, auth...)
	}
	return subtle.ConstantTimeCompare(keys(s), keys(other)) == 1
}

// decode decodes base64url with or without padding.
func decode(s string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
}

// Choice is the push setting of a user.
type Choice struct {
	Messages bool
	Requests bool
	Notices  bool
	Previews bool // pushes contain the text of messages
}

// usual is the default choice.
var usual = Choice{Messages: true, Requests: true, Notices: true}

// wants reports whether notices of a kind are pushed.
func (c Choice) wants(kind string) bool {
	if kind == api.NoticeFriendRequested || kind == api.NoticeGroupRequested {
		return c.Requests
	}
	return c.Notices
}

// job is the payload of [TopicSend] and [TopicOffline]. The content of the push is read when it is sent.
type job struct {
	User   accounts.ID              `json:"user"`
	Device accounts.DeviceID        `json:"device,omitzero"` // zero: to the backend with its own pushes
	Conv   messaging.ConversationID `json:"conv,omitzero"`   // conversation with waiting messages
	Notice int64                    `json:"notice,omitempty"`
	After  int64                    `json:"after,omitempty"` // a push was sent up to this message, including its mentions
	At     int64                    `json:"at"`              // Unix ms

	due int64 // due time in Unix ms; 0 means now
}

// key returns the queue key. A later job with the same key replaces this one.
func (j job) key() string {
	about := "n:" + j.User.String()
	if !j.Conv.IsZero() {
		about = "c:" + j.Conv.String() + ":" + j.User.String()
	}
	return about + ":" + j.Device.String()
}

// life is how long a push is useful.
const life = 24 * time.Hour

// The outbox topics of pushes.
const (
	TopicSend    = "push.send"
	TopicOffline = "push.offline"
)

// mailbox returns the contact without the prefix that the library adds.
func (c Settings) mailbox() string { return strings.TrimPrefix(c.Contact, "mailto:") }

// contact returns the subject of tokens for the library: the contact from the settings, the page, or the sender of
// mails.
func (c Settings) contact(page, sender string) string {
	if !strings.HasPrefix(page, "https://") {
		page = sender
	}
	return cmp.Or(c.mailbox(), page, "nobody@localhost")
}
