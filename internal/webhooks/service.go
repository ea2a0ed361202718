package webhooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/fairqueue"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Config configures the service.
type Config struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil: metrics are not collected

	// Dial replaces the network to the app's own backend. Nil means the network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Settings
}

// Service posts to the app's own backend. It is safe for concurrent use. A nil Service posts nothing.
type Service struct {
	cfg     Settings
	poster  *poster
	breaker *gobreaker.CircuitBreaker[api.HookVerdict]
	queue   *fairqueue.Queue // of questions
	log     *slog.Logger
	metrics *metrics
}

const (
	breakAfter = 5               // consecutive failures
	breakFor   = 5 * time.Second // then one question tries
)

// waiting and waitingPerUser are the largest numbers of waiting questions for each concurrent one.
const (
	waiting        = 8
	waitingPerUser = 2
)

// New returns a service. It returns an error with all faults of the settings.
func New(cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	s := &Service{cfg: cfg.Settings, log: cfg.Log, metrics: newMetrics(cfg.Metrics)}
	n := cfg.Before.Concurrency
	s.queue = fairqueue.New(fairqueue.Limits{Capacity: int64(n), Waiting: waiting * n, PerUser: waitingPerUser * n,
		Wait: cfg.Before.queueWait(), Full: ErrUnavailable})
	s.breaker = gobreaker.NewCircuitBreaker[api.HookVerdict](gobreaker.Settings{
		Timeout:     breakFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakAfter },
		IsExcluded:  func(err error) bool { return errors.Is(err, errCallerLeft) },
	})
	if cfg.After.URL != "" || cfg.Before.URL != "" {
		sign, err := signer(cfg.Secret)
		if err != nil {
			return nil, err
		}
		s.poster = newPoster(sign, cfg.Dial)
	}
	return s, nil
}

// errCallerLeft means that the caller disconnected before the verdict; the breaker does not count it.
var errCallerLeft = errors.New("webhooks: the caller disconnected")

// envelope is the payload of an outbox row: one delivery.
type envelope struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	At   int64           `json:"at"` // Unix ms
	Data json.RawMessage `json:"data"`
}

// message returns the body of the POST.
func (e envelope) message() ([]byte, error) {
	return json.Marshal(api.Webhook{Type: e.Type, Timestamp: api.At(time.UnixMilli(e.At).UTC()), Data: e.Data})
}

// rowSize is the approximate size of one row's data in bytes; the outbox accepts a MiB.
const rowSize = 256 << 10

// Wants reports whether [Service.Enqueue] does anything for an event.
func (s *Service) Wants(event string) bool {
	return s != nil && s.cfg.After.URL != "" && wants(s.cfg.After.Events, event)
}

// Enqueue adds a delivery of an event of tx to the outbox, if the settings select such events. subject is the object
// of the event: events of one subject are delivered in order, within the limits in the package documentation. Each of
// data has the type in api.HookData for the event.
func (s *Service) Enqueue(ctx context.Context, tx *sqldb.Tx, event, subject string, data ...any) (err error) {
	if !s.Wants(event) || len(data) == 0 {
		return nil
	}
	defer errs.Wrap(&err, "webhooks.Enqueue %s", event)
	var rows []sqldb.Message
	var list []json.RawMessage
	size := 0
	flush := func() error {
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		text, err = json.Marshal(envelope{ID: "msg_" + ids.New[envelope]().String(), Type: event, At: tx.Now().UnixMilli(), Data: text})
		rows, list, size = append(rows, sqldb.Message{Topic: Topic, Key: subject, Payload: text, NoDedup: true}), nil, 0
		return err
	}
	for _, d := range data {
		text, err := json.Marshal(d)
		if err == nil && size > 0 && size+len(text) > rowSize {
			err = flush()
		}
		if err != nil {
			return err
		}
		list, size = append(list, text), size+len(text)
	}
	if err := flush(); err != nil {
		return err
	}
	return tx.Enqueue(ctx, rows...)
}

// HasBefore reports whether [Service.Before] asks the backend about an event.
func (s *Service) HasBefore(event string) bool {
	return s != nil && s.cfg.Before.URL != "" && wants(s.cfg.Before.Events, event[len(beforePrefix):])
}

// Before asks the app's own backend whether an act may happen, and returns the verdict unless it is a refusal. asker is
// the user or client network whose share of the queue the question uses. Call it only for acts that the server's own
// rules allow. check, if it is not nil, returns an error of the kind errs.Invalid if the content of a verdict cannot be
// stored; then Before returns ErrRefused, because the user determines the content that the backend replaces. It returns
// ErrUnavailable if the backend is unavailable and the policy refuses, or if the question got no place in time.
func (s *Service) Before(ctx context.Context, event, asker string, data any,
	check func(api.HookVerdict) error) (_ api.HookVerdict, err error) {
	if !s.HasBefore(event) {
		return api.HookVerdict{}, nil
	}
	defer errs.Wrap(&err, "webhooks.Before %s", event)
	text, err := json.Marshal(data)
	if err != nil {
		return api.HookVerdict{}, err
	}
	release, err := s.queue.Acquire(ctx, asker, 1)
	if err != nil {
		if errors.Is(err, ErrUnavailable) {
			s.metrics.asked.WithLabelValues(event, "crowded").Inc()
		}
		return api.HookVerdict{}, err
	}
	defer release()
	v, err := s.breaker.Execute(func() (api.HookVerdict, error) {
		within, cancel := context.WithTimeout(ctx, s.cfg.Before.Timeout)
		defer cancel()
		v, err := s.poster.verdict(within, s.cfg.Before.URL,
			envelope{ID: "msg_" + ids.New[envelope]().String(), Type: event, At: time.Now().UnixMilli(), Data: text})
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errCallerLeft, ctx.Err())
		}
		return v, err
	})
	switch {
	case errors.Is(err, errCallerLeft):
		return api.HookVerdict{}, err
	case err != nil:
		s.metrics.asked.WithLabelValues(event, "away").Inc()
		s.log.Warn("webhooks: before-hook failed, policy applied", "event", event, "policy", s.cfg.Before.Policy, "err", err)
		if s.cfg.Before.Policy == refuse {
			return api.HookVerdict{}, ErrUnavailable
		}
		return api.HookVerdict{}, nil
	case v.Refuse != nil:
		s.metrics.asked.WithLabelValues(event, "refused").Inc()
		return api.HookVerdict{}, refusal(*v.Refuse)
	case check != nil:
		switch err := check(v); {
		case err == nil:
		case errs.KindOf(err) != errs.Invalid:
			return api.HookVerdict{}, err
		default:
			s.metrics.asked.WithLabelValues(event, "refused").Inc()
			s.log.Warn("webhooks: request refused, content of the verdict not storable", "event", event, "err", err)
			return api.HookVerdict{}, ErrRefused
		}
	}
	s.metrics.asked.WithLabelValues(event, "allowed").Inc()
	return v, nil
}

// refusal returns the error that a user gets for a refusal of the backend.
func refusal(r api.HookRefusal) error {
	e := *ErrRefused
	out := &e
	if r.Code != "" {
		out = ErrRefused.On("hook", clip(r.Code, 60))
	}
	out.Text = cmp.Or(clip(r.Text, 500), ErrRefused.Text)
	return out
}

// clip returns the first n characters of a text.
func clip(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n])
	}
	return s
}
