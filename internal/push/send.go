package push

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
)

const (
	// requestTime bounds the response of a push service; public ones take a tenth of it.
	requestTime = 5 * time.Second
	// perHost is the number of concurrent requests per host.
	perHost = 16
	// batchSize is the number of pushes per batch, and batchTime bounds a batch: pushes that have not started are
	// retried.
	batchSize = 200
	batchTime = 20 * time.Second
	// pauseTime is the pause of a host after a timeout, and maxPause is the longest pause that a host may ask for.
	pauseTime = 30 * time.Second
	maxPause  = 10 * time.Minute
)

// The outcomes of a push in metrics.
const (
	sent      = "sent"
	needless  = "needless"
	ended     = "ended"
	postponed = "postponed"
	failed    = "failed"
	givenUp   = "given_up"
)

// errRefused is a response that may change with a retry.
var errRefused = errors.New("the push service refused the message")

// later reports that a push will be sent at another time, without a fault of its own.
type later struct{ at time.Time }

func (l later) Error() string { return "to be sent later" }

// hosts lists hosts that rest. The zero hosts is not ready for use.
type hosts struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// pausedUntil returns the end of the pause of a host. After the pause one request tests the host, and the others wait
// for it.
func (h *hosts) pausedUntil(host string, now time.Time) (until time.Time, yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, ok := h.until[host]
	if latest := now.Add(maxPause); until.After(latest) { // the clock was ahead
		until = latest
		h.until[host] = until
	}
	if ok && !now.Before(until) {
		h.until[host] = now.Add(2 * requestTime)
		return time.Time{}, false
	}
	return until, ok
}

// pause starts the pause of a host, and returns its end.
func (h *hosts) pause(host string, now time.Time, d time.Duration) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	for other, until := range h.until { // removes old entries
		if now.Sub(until) > maxPause {
			delete(h.until, other)
		}
	}
	h.until[host] = now.Add(min(max(d, pauseTime), maxPause))
	return h.until[host]
}

// pauseEnd returns the end of the pause or test of a host; zero means neither.
func (h *hosts) pauseEnd(host string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until[host]
}

// well records that a host answers.
func (h *hosts) well(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.until, host)
}

// delivery is a push with its recipient.
type delivery struct {
	at   int // position in the batch
	job  job
	sub  Subscription
	push api.Push
}

// prepared reads the current data of jobs. answers has a result for each job without a delivery.
func (s *Service) prepared(ctx context.Context, jobs []job) (list []delivery, answers []error) {
	answers = make([]error, len(jobs))
	all := func(err error) ([]delivery, []error) {
		for i := range answers {
			answers[i] = err
		}
		return nil, answers
	}
	users := usersOf(jobs)
	online, partial, err := s.presence.Online(ctx, users)
	switch {
	case err != nil:
		return all(err)
	case partial: // it is unknown who is online
		return all(later{s.db.Now().Add(pauseTime)})
	}
	subs, err := liveSubscriptions(ctx, s.db, users)
	if err != nil {
		return all(asKind(err))
	}
	about, err := s.readers(ctx, users)
	if err != nil {
		return all(asKind(err))
	}
	wanted := s.selectWanted(jobs, online, subs, answers)
	facts, err := s.facts(ctx, wanted, about)
	if err != nil {
		return all(err)
	}
	messages := map[memberKey]pushState{}
	for _, d := range wanted {
		var ok bool
		d.push, ok, err = facts.compose(d.job)
		switch {
		case err != nil:
			answers[d.at] = err
		case !ok:
			s.metrics.sent.WithLabelValues(needless).Inc()
		default:
			list = append(list, d)
			if !d.job.Conv.IsZero() {
				messages[memberKey{d.job.User, d.job.Conv}] = pushState{seq: d.push.Seq}
			}
		}
	}
	// Messages since the last check of the follower are part of these pushes.
	if err := recordStates(ctx, s.db, messages); err != nil {
		return all(asKind(err))
	}
	return list, answers
}

// selectWanted returns the deliveries that are still wanted, and the results of jobs for later.
func (s *Service) selectWanted(jobs []job, online map[accounts.ID]bool, subs []Subscription, answers []error) (wanted []delivery) {
	bySub := make(map[device]Subscription, len(subs))
	for _, sub := range subs {
		bySub[device{sub.User, sub.Device}] = sub
	}
	now := s.db.Now()
	for i, j := range jobs {
		d := delivery{at: i, job: j, sub: bySub[device{j.User, j.Device}]}
		if online[j.User] && j.Notice != 0 && now.UnixMilli()-j.At < deep.Milliseconds() {
			// the connection may be dead, and the follower does not check notices again
			s.metrics.sent.WithLabelValues(postponed).Inc()
			answers[i] = later{time.UnixMilli(j.At).Add(deep)}
			continue
		}
		if online[j.User] || now.UnixMilli()-j.At > life.Milliseconds() || !j.Device.IsZero() && d.sub.User.IsZero() {
			s.metrics.sent.WithLabelValues(needless).Inc()
			continue
		}
		if until, paused := s.hosts.pausedUntil(hostOf(d.sub), now); paused {
			s.metrics.sent.WithLabelValues(postponed).Inc()
			answers[i] = later{until}
			continue
		}
		wanted = append(wanted, d)
	}
	return wanted
}

// recordSent records the last messages whose pushes were sent. A push that is sent later or again has not delivered its
// mentions yet.
func (s *Service) recordSent(ctx context.Context, list []delivery, answers []error) {
	all := map[memberKey]pushState{}
	for _, d := range list {
		if !d.job.Conv.IsZero() && answers[d.at] == nil {
			all[memberKey{d.job.User, d.job.Conv}] = pushState{sent: d.push.Seq}
		}
	}
	if err := recordStates(context.WithoutCancel(ctx), s.db, all); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "push: sent pushes not recorded, a mention may be pushed again", slog.Any("err", err))
	}
}

type device struct {
	user   accounts.ID
	device accounts.DeviceID
}

func usersOf(jobs []job) (users []accounts.ID) {
	seen := map[accounts.ID]bool{}
	for _, j := range jobs {
		if !seen[j.User] {
			seen[j.User] = true
			users = append(users, j.User)
		}
	}
	return users
}

// send sends one push. It returns nil if the push was accepted or can never be accepted.
func (s *Service) send(ctx context.Context, d delivery, attempt int) error {
	outcome, err := s.post(ctx, d)
	if outcome == failed && attempt >= maxTries { // a push is not worth a dead letter
		s.log.LogAttrs(ctx, slog.LevelWarn, "push: given up", slog.String("user", d.job.User.String()),
			slog.String("device", d.job.Device.String()), slog.Any("err", err))
		outcome, err = givenUp, nil
	}
	s.metrics.sent.WithLabelValues(outcome).Inc()
	return err
}

// deliver sends to all hosts in parallel, with a limit per host, and stops for a host that starts to pause. It fills in
// the results.
func (s *Service) deliver(ctx context.Context, list []delivery, attempts []int, answers []error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	var all sync.WaitGroup
	grouped := map[string][]delivery{}
	for _, d := range list {
		host := hostOf(d.sub)
		grouped[host] = append(grouped[host], d)
	}
	for host, deliveries := range grouped {
		before := s.hosts.pauseEnd(host)
		g := new(errgroup.Group)
		g.SetLimit(perHost)
		all.Go(func() {
			for _, d := range deliveries {
				g.Go(func() error {
					if ctx.Err() != nil {
						answers[d.at] = later{s.db.Now()}
						return nil
					}
					if until := s.hosts.pauseEnd(host); until.After(before) {
						s.metrics.sent.WithLabelValues(postponed).Inc()
						answers[d.at] = later{until}
						return nil
					}
					answers[d.at] = s.send(ctx, d, attempts[d.at])
					return nil
				})
			}
			_ = g.Wait() // its functions return nil
		})
	}
	all.Wait()
}
