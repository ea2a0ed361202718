package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// People is what this domain asks accounts for; *accounts.Service is one.
type People interface {
	// Profiles returns how those of ids look to others that exist or existed.
	Profiles(ctx context.Context, ids []accounts.ID) (accounts.Profiles, error)
}

// Presence says who is on line; *presence.Service does.
type Presence interface {
	// Online returns which of users are connected; partial: others may be, too.
	Online(ctx context.Context, users []accounts.ID) (_ map[accounts.ID]bool, partial bool, err error)
}

// Chats says what waits in them; *messaging.Service does.
type Chats interface {
	// Waiting returns what waits for users in conversations; a place that is not in the answer has nothing that waits.
	Waiting(ctx context.Context, places []messaging.Place) (map[messaging.Place]messaging.Waiting, error)
}

// Told has users' notices; *notices.Service does.
type Told interface {
	// Pending returns those of some notices that are listed and unread.
	Pending(ctx context.Context, places []notices.Place) (map[notices.Place]notices.Notice, error)
}

// Config has what the domain stands on.
type Config struct {
	DB       *sqldb.DB
	People   People
	Presence Presence
	Chats    Chats
	Told     Told
	Secret   []byte // the server's own, under which the keys are stored
	// Previous is another secret under which the keys may be stored, while the secret is rotated; nil: none.
	Previous []byte
	// Origin is the secret of which keys are made that are not stored yet; nil: Secret.
	Origin  []byte
	Page    string // where people reach the page, for whoever asks whose pushes these are
	Sender  string // address of the server's mails, for the same where Page is not https
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil: nothing is collected

	// Offline hands what a user should see to whoever sends pushes of their own (APNs, FCM), for each push once, and
	// after a kill perhaps twice. It comes while no device of the user is on line, whether one has a
	// subscription or not, and whatever the user wants pushed to browsers: but for chats that are muted, and groups that
	// are not to notify. An error has it tried again. Nil: nobody does.
	Offline func(ctx context.Context, user accounts.ID, p api.Push) error

	// Transport is in place of the one that connects to public addresses only: for tests. Nil: that one.
	Transport Transport

	Settings
}

// Service is the domain as the rest of the program sees it. It is safe for concurrent use.
type Service struct {
	db       *sqldb.DB
	people   People
	presence Presence
	chats    Chats
	told     Told
	secret   []byte
	previous []byte
	origin   []byte
	contact  string
	log      *slog.Logger
	offline  func(ctx context.Context, user accounts.ID, p api.Push) error
	http     poster
	hosts    hosts
	cfg      Settings
	metrics  *metrics

	mu   sync.Mutex
	keys keys // zero until they are asked for

	mark marks                                       // of the follower
	done map[messaging.ConversationID]messaging.Said // by the follower: conversations of the last minute, as they were when nobody was left to tell later
}

// New returns the domain on those parts. The error has all faults of the settings.
func New(cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	origin := cfg.Origin
	if origin == nil {
		origin = cfg.Secret
	}
	return &Service{db: cfg.DB, people: cfg.People, presence: cfg.Presence, chats: cfg.Chats, told: cfg.Told, secret: cfg.Secret, previous: cfg.Previous, origin: origin, contact: cfg.Settings.contact(cfg.Page, cfg.Sender), log: cfg.Log,
		offline: cfg.Offline, cfg: cfg.Settings, metrics: newMetrics(cfg.Metrics), hosts: hosts{until: map[string]time.Time{}}, done: map[messaging.ConversationID]messaging.Said{},
		http: newPoster(cfg.Transport, cfg.Private)}, nil
}

// signing returns the deployment's keys.
func (s *Service) signing(ctx context.Context) (keys, error) {
	s.mu.Lock()
	have := s.keys
	s.mu.Unlock()
	if have.public != "" {
		return have, nil
	}
	have, err := s.stored(ctx)
	if err != nil {
		return keys{}, asKind(err)
	}
	s.mu.Lock()
	s.keys = have
	s.mu.Unlock()
	return have, nil
}

// stored returns the keys from SQL, where they are sealed under the secret. The first node that asks stores them, and
// one with a new secret seals them again.
func (s *Service) stored(ctx context.Context) (k keys, err error) {
	sealed, err := setting(ctx, s.db, keyName)
	if err != nil {
		return keys{}, err
	}
	if sealed == "" {
		seed, err := firstSetting(ctx, s.db, seedName, newSeed())
		if err != nil {
			return keys{}, err
		}
		if sealed, err = firstSetting(ctx, s.db, keyName, keysOf(s.origin, seed).seal(s.secret)); err != nil {
			return keys{}, err
		}
	}
	k, ok := unseal(s.secret, sealed)
	if !ok && s.previous != nil {
		if k, ok = unseal(s.previous, sealed); ok && bytes.Equal(s.origin, s.previous) {
			err = putSetting(ctx, s.db, keyName, k.seal(s.secret))
		}
	}
	if !ok {
		return keys{}, errSealed
	}
	return k, err
}

// errSealed reports keys that this node cannot read.
var errSealed = errors.New("push: the keys in the database belong to another secret; set secret_previous to it")

// Key returns the key with which browsers subscribe, in base64url.
func (s *Service) Key(ctx context.Context) (_ string, err error) {
	defer errs.Wrap(&err, "push.Key")
	k, err := s.signing(ctx)
	return k.public, err
}

// Subscribe has pushes to a user go to a device, until it is logged out. An earlier subscription of the device, and one of the same
// endpoint, ends. ErrEndpoint, ErrKeys.
func (s *Service) Subscribe(ctx context.Context, sub Subscription) (err error) {
	defer errs.Wrap(&err, "push.Subscribe %s", sub.User)
	if err := sub.check(); err != nil {
		return err
	}
	return asKind(inTx(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error {
		sub.Created = tx.Now().UnixMilli()
		return insertSubscription(ctx, tx, sub)
	}))
}

// Unsubscribe ends that; where there is none, it changes nothing.
func (s *Service) Unsubscribe(ctx context.Context, user accounts.ID, device accounts.DeviceID) (err error) {
	defer errs.Wrap(&err, "push.Unsubscribe %s", user)
	return asKind(deleteSubscription(ctx, s.db, user, device))
}

// Status is what is pushed to a user.
type Status struct {
	Choice
	Devices []accounts.DeviceID // that have a subscription
}

// Status returns it.
func (s *Service) Status(ctx context.Context, user accounts.ID) (st Status, err error) {
	defer errs.Wrap(&err, "push.Status %s", user)
	found, err := subscriptionsOf(ctx, s.db, []accounts.ID{user})
	if err != nil {
		return st, asKind(err)
	}
	for _, sub := range found {
		st.Devices = append(st.Devices, sub.Device)
	}
	all, err := choices(ctx, s.db, []accounts.ID{user}, "")
	st.Choice = all[user]
	return st, asKind(err)
}

// Update is what changes of a choice; nil changes nothing.
type Update struct{ Messages, Requests, Notices, Previews *bool }

// Choose changes what a user wants to be pushed.
func (s *Service) Choose(ctx context.Context, user accounts.ID, u Update) (err error) {
	defer errs.Wrap(&err, "push.Choose %s", user)
	return asKind(inTx(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error {
		c, err := lockChoice(ctx, tx, user)
		if err != nil {
			return err
		}
		for _, one := range []struct{ to, value *bool }{{&c.Messages, u.Messages}, {&c.Requests, u.Requests}, {&c.Notices, u.Notices}, {&c.Previews, u.Previews}} {
			if one.value != nil {
				*one.to = *one.value
			}
		}
		return setChoice(ctx, tx, user, c)
	}))
}

// Erase removes all that there is of a user who has no account any more. It may be repeated.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "push.Erase %s", user)
	return asKind(erase(ctx, s.db, user))
}

// Notices has new notices pushed, in their transaction; it is a notices.Config.Pushes.
func (s *Service) Notices(ctx context.Context, tx *sqldb.Tx, fresh []notices.Notice) (err error) {
	defer errs.Wrap(&err, "push.Notices")
	users := make([]accounts.ID, len(fresh))
	for i, n := range fresh {
		users[i] = n.User
	}
	subs, err := subscriptionsOf(ctx, tx, users)
	if err != nil {
		return err
	}
	devices := byUser(subs)
	var jobs []job
	for _, n := range fresh {
		jobs = append(jobs, s.jobs(job{User: n.User, Notice: n.Seq, At: n.At}, devices[n.User])...)
	}
	return enqueue(ctx, tx, jobs)
}

// jobs are a job for each device of its user, and for the hook.
func (s *Service) jobs(of job, devices []accounts.DeviceID) (all []job) {
	for _, d := range devices {
		of.Device = d
		all = append(all, of)
	}
	if s.offline != nil {
		of.Device = accounts.DeviceID{}
		all = append(all, of)
	}
	return all
}

func byUser(subs []Subscription) map[accounts.ID][]accounts.DeviceID {
	devices := make(map[accounts.ID][]accounts.DeviceID, len(subs))
	for _, s := range subs {
		devices[s.User] = append(devices[s.User], s.Device)
	}
	return devices
}
