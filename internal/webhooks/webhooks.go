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

// Refusals of a webhook before the fact.
var (
	ErrRefused     = errs.New(errs.Forbidden, "hook.refused", "The app does not allow this.")
	ErrUnavailable = errs.New(errs.Unavailable, "hook.away", "This cannot be checked right now. Please try again.").Retry(2 * time.Second)
)

// Errors are the refusals of [Service.Before], for the API description of operations that ask.
var Errors = []*errs.Error{ErrRefused, ErrUnavailable}

// Settings are the operator's settings.
type Settings struct {
	Secret string `koanf:"secret" secret:"true" help:"signing key of webhooks: whsec_ and 24 to 64 bytes in base64"`
	After  After  `koanf:"after"`
	Before Before `koanf:"before"`
}

// After are the settings of webhooks after the fact.
type After struct {
	URL     string        `koanf:"url" secret:"url" help:"URL for events; empty: none"`
	Events  []string      `koanf:"events" help:"events that are posted, such as message.sent; empty: all"`
	Timeout time.Duration `koanf:"timeout" default:"10s" help:"time limit of a response, at most 30s"`
}

// Before are the settings of webhooks before the fact.
type Before struct {
	URL         string        `koanf:"url" secret:"url" help:"URL that is asked before acts of users; empty: none"`
	Events      []string      `koanf:"events" help:"acts to ask about: message, message_edit, message_recall, registration, friend_request, checkin; empty: all"`
	Timeout     time.Duration `koanf:"timeout" default:"2s" help:"time limit of a response, at most 10s"`
	Policy      string        `koanf:"policy" default:"allow" enum:"allow,refuse" help:"decision if the backend does not respond"`
	Concurrency int           `koanf:"concurrency" default:"64" help:"largest number of concurrent questions of a node, half of them for one user; further ones wait"`
}

// maxQueueWait is the longest wait of a question for its turn.
const maxQueueWait = 1500 * time.Millisecond

func (b Before) queueWait() time.Duration { return min(b.Timeout, maxQueueWait) }

// Longest returns the longest time that [Service.Before] takes: the waits for a turn and for a response.
func (b Before) Longest() time.Duration { return b.queueWait() + b.Timeout }

const (
	refuse       = "refuse" // a policy
	beforePrefix = "before."
)

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	config.Defaults(&c)
	faults := []error{
		config.Refuse(!isAddress(c.After.URL), "after.url", "want a URL such as https://app.example.org/hooks"),
		config.Refuse(!isAddress(c.Before.URL), "before.url", "want a URL such as https://app.example.org/hooks"),
		config.Refuse(c.After.Timeout < time.Millisecond || c.After.Timeout > 30*time.Second, "after.timeout", "%s is not between 1ms and 30s",
			c.After.Timeout),
		config.Refuse(c.Before.Timeout < time.Millisecond || c.Before.Timeout > 10*time.Second, "before.timeout", "%s is not between 1ms and 10s",
			c.Before.Timeout),
		config.Refuse(c.Before.Concurrency < 1 || c.Before.Concurrency > 10_000, "before.concurrency", "%d is not between 1 and 10000",
			c.Before.Concurrency),
	}
	for _, e := range c.After.Events {
		faults = append(faults, config.Refuse(!isEvent(e) || strings.HasPrefix(e, beforePrefix), "after.events",
			"%q is no event: see docs/integration.md", e))
	}
	for _, e := range c.Before.Events {
		faults = append(faults, config.Refuse(!isEvent(beforePrefix+e), "before.events",
			"%q is none of message, message_edit, message_recall, registration, friend_request, checkin", e))
	}
	if c.After.URL != "" || c.Before.URL != "" {
		_, err := signer(c.Secret)
		faults = append(faults, config.Refuse(err != nil, "secret",
			"want whsec_ and 24 to 64 bytes in base64, such as those of openssl rand -base64 32"))
	}
	return errors.Join(faults...)
}

func isEvent(name string) bool { _, ok := api.HookData[name]; return ok }

func isAddress(s string) bool {
	u, err := url.Parse(s)
	return s == "" || err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// signer returns the signer of a secret, or an error if the secret is malformed or too short.
func signer(secret string) (*standardwebhooks.Webhook, error) {
	w, err := standardwebhooks.NewWebhook(secret)
	if err == nil && (!strings.HasPrefix(secret, "whsec_") || len(secret) < len("whsec_")+32) {
		err = errors.New("webhooks: invalid secret")
	}
	return w, err
}

// wants reports whether names contains event; empty names contain every event.
func wants(names []string, event string) bool {
	return len(names) == 0 || slices.Contains(names, event)
}
