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

// The domain's refusals.
var (
	ErrEndpoint = errs.New(errs.Invalid, "push.endpoint", "An endpoint is an https address of a push service.")
	ErrKeys     = errs.New(errs.Invalid, "push.keys", "These are not the keys of a subscription.")
	ErrStore    = errs.New(errs.Unavailable, "push.store_away", "Pushes cannot be reached right now. Please try again.").Retry(2 * time.Second)
)

// Settings are what an operator may choose; 0 is the default of each.
type Settings struct {
	Contact string        `koanf:"contact" help:"how push services reach the operator: an address, or https://…; empty: public_url where that is https, else the address of smtp.from, else nobody@localhost, which Apple refuses"`
	Pause   time.Duration `koanf:"pause" default:"30s" help:"how long further messages of a chat wait after a push, and become one, at most an hour"`
	Private bool          `koanf:"private" default:"false" help:"send to endpoints in private networks, too: for push services of one's own"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	config.Defaults(&c)
	address, err := mail.ParseAddress(c.mailbox())
	return errors.Join(
		config.Refuse(c.Pause < time.Second || c.Pause > time.Hour, "pause", "%s is not between a second and an hour", c.Pause),
		config.Refuse(c.Contact != "" && !strings.HasPrefix(c.Contact, "https://") && (err != nil || address.Address != c.mailbox()), "contact", "is neither an e-mail address nor an https address"))
}

// Subscription is a browser's on a device of a user.
type Subscription struct {
	User     accounts.ID
	Device   accounts.DeviceID
	Endpoint string
	P256DH   string // base64url
	Auth     string // base64url
	Created  int64  // Unix ms
}

// hash names the endpoint.
func (s Subscription) hash() string {
	sum := sha256.Sum256([]byte(s.Endpoint))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// check refuses what nobody can send to. ErrEndpoint, ErrKeys.
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

// sameKeys reports whether two subscriptions have the same keys, of which a browser tells its own page alone.
func (s Subscription) sameKeys(other Subscription) bool {
	keys := func(s Subscription) []byte {
		point, _ := decode(s.P256DH)
		auth, _ := decode(s.Auth)
		return append(point, auth...)
	}
	return subtle.ConstantTimeCompare(keys(s), keys(other)) == 1
}

// decode takes base64url with and without padding.
func decode(s string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
}

// Choice is what a user wants to be pushed.
type Choice struct {
	Messages bool
	Requests bool
	Notices  bool
	Previews bool // pushes have the text of messages
}

// usual is the choice of a user who has made none.
var usual = Choice{Messages: true, Requests: true, Notices: true}

// wants reports whether notices of a kind are pushed.
func (c Choice) wants(kind string) bool {
	if kind == api.NoticeFriendRequested || kind == api.NoticeGroupRequested {
		return c.Requests
	}
	return c.Notices
}

// job is the payload of [TopicSend] and [TopicOffline]: what is to be sent is looked up when it is sent.
type job struct {
	User   accounts.ID              `json:"user"`
	Device accounts.DeviceID        `json:"device,omitzero"` // none: to whoever sends pushes of their own
	Conv   messaging.ConversationID `json:"conv,omitzero"`   // messages that wait in it
	Notice int64                    `json:"notice,omitempty"`
	After  int64                    `json:"after,omitempty"` // up to which message a push was sent before: mentions up to there were told
	At     int64                    `json:"at"`              // Unix ms

	due int64 // Unix ms when it is to be done; 0: at once
}

// key is what a later job of the same takes the place of.
func (j job) key() string {
	about := "n:" + j.User.String()
	if !j.Conv.IsZero() {
		about = "c:" + j.Conv.String() + ":" + j.User.String()
	}
	return about + ":" + j.Device.String()
}

// life is how long a push is worth anything.
const life = 24 * time.Hour

// The topics of what waits to be sent.
const (
	TopicSend    = "push.send"
	TopicOffline = "push.offline"
)

// mailbox is the contact without what the library writes before an address.
func (c Settings) mailbox() string { return strings.TrimPrefix(c.Contact, "mailto:") }

// contact is the subject of tokens, as the library takes it: that of the settings, else the page, else the
// sender of mails.
func (c Settings) contact(page, sender string) string {
	if !strings.HasPrefix(page, "https://") {
		page = sender
	}
	return cmp.Or(c.mailbox(), page, "nobody@localhost")
}
