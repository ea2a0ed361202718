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
	// requestTime is how long a push service may take to answer; the public ones take a tenth of a second.
	requestTime = 5 * time.Second
	// perHost is how many requests to one host are under way at once.
	perHost = 16
	// batchSize is how many pushes are taken at a time, and batchTime how long that may last: what has not begun by then comes again.
	batchSize = 200
	batchTime = 20 * time.Second
	// restAfter is how long nothing is sent to a host that did not answer in time, and mostRest the longest that one may ask for.
	restAfter = 30 * time.Second
	mostRest  = 10 * time.Minute
)

// The outcomes of a push, as metrics have them.
const (
	sent      = "sent"
	needless  = "needless"
	ended     = "ended"
	postponed = "postponed"
	failed    = "failed"
	givenUp   = "given_up"
)

// errRefused is an answer that another try may change.
var errRefused = errors.New("the push service does not take it")

// later says that a push is to be sent at another time, and that this is no fault of its own.
type later struct{ at time.Time }

func (l later) Error() string { return "to be sent later" }

// hosts are those to which nothing is sent for now. The zero hosts are not ready.
type hosts struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// resting returns until when nothing is to be sent to a host. When the time is over, one request finds out how the host is,
// and the others wait for that.
func (h *hosts) resting(host string, now time.Time) (until time.Time, yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, there := h.until[host]
	if latest := now.Add(mostRest); until.After(latest) { // the clock was ahead
		until = latest
		h.until[host] = until
	}
	if there && !now.Before(until) {
		h.until[host] = now.Add(2 * requestTime)
		return time.Time{}, false
	}
	return until, there
}

// rest has nothing sent to a host for a while, and returns until when.
func (h *hosts) rest(host string, now time.Time, d time.Duration) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	for other, until := range h.until { // those that nobody asks about any more
		if now.Sub(until) > mostRest {
			delete(h.until, other)
		}
	}
	h.until[host] = now.Add(min(max(d, restAfter), mostRest))
	return h.until[host]
}

// rests returns until when a host rests, or is found out about; zero: it does not.
func (h *hosts) rests(host string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until[host]
}

// well notes that a host answers.
func (h *hosts) well(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.until, host)
}

// delivery is a push on its way: what it says, and to whom.
type delivery struct {
	at   int // in the batch
	job  job
	sub  Subscription
	push api.Push
}

// prepared looks up what jobs come to by now. answers has an answer for each job that is not among
// the deliveries.
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
	case partial: // nobody knows who is on line
		return all(later{s.db.Now().Add(restAfter)})
	}
	subs, err := liveSubscriptions(ctx, s.db, users)
	if err != nil {
		return all(asKind(err))
	}
	about, err := s.readers(ctx, users)
	if err != nil {
		return all(asKind(err))
	}
	wanted := s.sortOut(jobs, online, subs, answers)
	facts, err := s.facts(ctx, wanted, about)
	if err != nil {
		return all(err)
	}
	messages := map[memberKey]told{}
	for _, d := range wanted {
		var there bool
		d.push, there, err = facts.compose(d.job)
		switch {
		case err != nil:
			answers[d.at] = err
		case !there:
			s.metrics.sent.WithLabelValues(needless).Inc()
		default:
			list = append(list, d)
			if !d.job.Conv.IsZero() {
				messages[memberKey{d.job.User, d.job.Conv}] = told{seq: d.push.Seq}
			}
		}
	}
	// What came since the follower has looked is part of these pushes.
	if err := noteTold(ctx, s.db, messages); err != nil {
		return all(asKind(err))
	}
	return list, answers
}

// sortOut returns the deliveries that are wanted now, and answers jobs that are to come later.
func (s *Service) sortOut(jobs []job, online map[accounts.ID]bool, subs []Subscription, answers []error) (wanted []delivery) {
	bySub := make(map[device]Subscription, len(subs))
	for _, sub := range subs {
		bySub[device{sub.User, sub.Device}] = sub
	}
	now := s.db.Now()
	for i, j := range jobs {
		d := delivery{at: i, job: j, sub: bySub[device{j.User, j.Device}]}
		if online[j.User] && j.Notice != 0 && now.UnixMilli()-j.At < deep.Milliseconds() { // the connection may be dead, and no follower looks at notices again
			s.metrics.sent.WithLabelValues(postponed).Inc()
			answers[i] = later{time.UnixMilli(j.At).Add(deep)}
			continue
		}
		if online[j.User] || now.UnixMilli()-j.At > life.Milliseconds() || !j.Device.IsZero() && d.sub.User.IsZero() {
			s.metrics.sent.WithLabelValues(needless).Inc()
			continue
		}
		if until, resting := s.hosts.resting(hostOf(d.sub), now); resting {
			s.metrics.sent.WithLabelValues(postponed).Inc()
			answers[i] = later{until}
			continue
		}
		wanted = append(wanted, d)
	}
	return wanted
}

// noteSent notes up to where pushes of messages were sent. One that is to be sent later, or again, has told of no mention yet.
func (s *Service) noteSent(ctx context.Context, list []delivery, answers []error) {
	all := map[memberKey]told{}
	for _, d := range list {
		if !d.job.Conv.IsZero() && answers[d.at] == nil {
			all[memberKey{d.job.User, d.job.Conv}] = told{sent: d.push.Seq}
		}
	}
	if err := noteTold(context.WithoutCancel(ctx), s.db, all); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "pushes were sent and could not be noted: a mention may be pushed again", slog.Any("err", err))
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

// send sends one push. nil: it was taken, or nobody will ever take it.
func (s *Service) send(ctx context.Context, d delivery, attempt int) error {
	outcome, err := s.post(ctx, d)
	if outcome == failed && attempt >= maxTries { // a push is not worth a dead letter
		s.log.LogAttrs(ctx, slog.LevelWarn, "a push is given up", slog.String("user", d.job.User.String()), slog.String("device", d.job.Device.String()), slog.Any("err", err))
		outcome, err = givenUp, nil
	}
	s.metrics.sent.WithLabelValues(outcome).Inc()
	return err
}

// deliver sends to all hosts side by side, and to none more at once than it may bear, nor any more once it has come to rest.
// It fills in the answers.
func (s *Service) deliver(ctx context.Context, list []delivery, attempts []int, answers []error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	var all sync.WaitGroup
	grouped := map[string][]delivery{}
	for _, d := range list {
		host := hostOf(d.sub)
		grouped[host] = append(grouped[host], d)
	}
	for host, some := range grouped {
		before := s.hosts.rests(host)
		g := new(errgroup.Group)
		g.SetLimit(perHost)
		all.Go(func() {
			for _, d := range some {
				g.Go(func() error {
					if ctx.Err() != nil {
						answers[d.at] = later{s.db.Now()}
						return nil
					}
					if until := s.hosts.rests(host); until.After(before) {
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
