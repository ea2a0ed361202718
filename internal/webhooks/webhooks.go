package webhooks

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/config"
)

// Topic is the outbox's topic of webhooks.
const Topic = "webhooks"

// The refusals of a webhook before the fact.
var (
	ErrRefused = errs.New(errs.Forbidden, "hook.refused", "This was refused.")
	ErrAway    = errs.New(errs.Unavailable, "hook.away", "This cannot be checked right now. Please try again.").Retry(2 * time.Second)
)

// Errors are the refusals of [Service.Before], for the description of operations that ask.
var Errors = []*errs.Error{ErrRefused, ErrAway}

// Settings are what an operator may choose.
type Settings struct {
	Secret string `koanf:"secret" secret:"true" help:"what webhooks are signed with: whsec_ and 24 to 64 bytes in base64"`
	After  After  `koanf:"after"`
	Before Before `koanf:"before"`
}

// After are the settings of webhooks after the fact.
type After struct {
	URL     string        `koanf:"url" secret:"url" help:"where what has happened is posted; empty: nowhere"`
	Events  []string      `koanf:"events" help:"what is posted, such as message.sent; empty: everything"`
	Timeout time.Duration `koanf:"timeout" default:"10s" help:"how long an answer may take, at most 30s"`
}

// Before are the settings of webhooks before the fact.
type Before struct {
	URL         string        `koanf:"url" secret:"url" help:"where is asked what users may do; empty: nobody is asked"`
	Events      []string      `koanf:"events" help:"what is asked about: message, message_edit, message_recall, registration, friend_request, checkin; empty: all of them"`
	Timeout     time.Duration `koanf:"timeout" default:"2s" help:"how long an answer may take, at most 10s"`
	Policy      string        `koanf:"policy" default:"allow" enum:"allow,refuse" help:"what holds while nobody answers"`
	Concurrency int           `koanf:"concurrency" default:"64" help:"questions that a node asks at a time, half of them about one user; further ones wait"`
}

// maxQueueWait is the longest time that a question waits for its turn.
const maxQueueWait = 1500 * time.Millisecond

func (b Before) queueWait() time.Duration { return min(b.Timeout, maxQueueWait) }

// Longest returns the longest time that [Service.Before] takes: the wait for a turn and that for an answer.
func (b Before) Longest() time.Duration { return b.queueWait() + b.Timeout }

const (
	refuse       = "refuse" // a policy
	beforePrefix = "before."
)

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	config.Defaults(&c)
	faults := []error{
		config.Refuse(!isAddress(c.After.URL), "after.url", "an address is https://app.example.org/hooks"),
		config.Refuse(!isAddress(c.Before.URL), "before.url", "an address is https://app.example.org/hooks"),
		config.Refuse(c.After.Timeout < time.Millisecond || c.After.Timeout > 30*time.Second, "after.timeout", "%s is not between 1ms and 30s", c.After.Timeout),
		config.Refuse(c.Before.Timeout < time.Millisecond || c.Before.Timeout > 10*time.Second, "before.timeout", "%s is not between 1ms and 10s", c.Before.Timeout),
		config.Refuse(c.Before.Concurrency < 1 || c.Before.Concurrency > 10_000, "before.concurrency", "%d is not between 1 and 10000", c.Before.Concurrency),
	}
	for _, e := range c.After.Events {
		faults = append(faults, config.Refuse(!isEvent(e) || strings.HasPrefix(e, beforePrefix), "after.events", "%q is none: see docs/integration.md", e))
	}
	for _, e := range c.Before.Events {
		faults = append(faults, config.Refuse(!isEvent(beforePrefix+e), "before.events", "%q is none of message, message_edit, message_recall, registration, friend_request, checkin", e))
	}
	if c.After.URL != "" || c.Before.URL != "" {
		_, err := signer(c.Secret)
		faults = append(faults, config.Refuse(err != nil, "secret", "webhooks are signed with whsec_ and 24 to 64 bytes in base64; openssl rand -base64 32 makes some"))
	}
	return errors.Join(faults...)
}

func isEvent(name string) bool { _, ok := api.HookData[name]; return ok }

func isAddress(s string) bool {
	u, err := url.Parse(s)
	return s == "" || err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// signer refuses a secret that is too short to be one.
func signer(secret string) (*standardwebhooks.Webhook, error) {
	w, err := standardwebhooks.NewWebhook(secret)
	if err == nil && (!strings.HasPrefix(secret, "whsec_") || len(secret) < len("whsec_")+32) {
		err = errors.New("webhooks: no secret")
	}
	return w, err
}

// wants reports whether an event is among those that an operator has named; no names are all.
func wants(names []string, event string) bool {
	return len(names) == 0 || slices.Contains(names, event)
}
