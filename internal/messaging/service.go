package messaging

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/groupcommit"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/config"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/events"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// People is what this domain asks accounts for; *accounts.Service is one.
type People interface {
	// Profiles returns how those of ids look to others that exist or existed.
	Profiles(ctx context.Context, ids []accounts.ID) (map[accounts.ID]accounts.Profile, error)
}

// Relations is what this domain asks social for; *social.Service is one.
type Relations interface {
	IsFriend(ctx context.Context, user, other accounts.ID) (bool, error)
	IsBlocked(ctx context.Context, by, who accounts.ID) (bool, error)
}

// Config has what the domain stands on.
type Config struct {
	DB        *sqldb.DB
	Bus       *events.Bus // gets the events, after the commit
	People    People
	Relations Relations
	Log       *slog.Logger

	// Live returns the nodes that live, this one among them. Nil: there is no other.
	Live func(context.Context) ([]string, error)

	Settings
}

// Service is messaging as the rest of the program sees it. It is safe for concurrent use.
type Service struct {
	store     *store
	bus       *events.Bus
	people    People
	relations Relations
	cfg       Settings
	log       *slog.Logger
	messages  *groupcommit.Committer[sending, sent]
	marks     *groupcommit.Committer[marking, struct{}]
	pairs     pairs
	live      func(context.Context) ([]string, error)
	watch     watch
	base      context.Context //nolint:containedctx // for what follows a commit
}

// New returns the domain on those parts. What follows a commit has the values of ctx.
func New(ctx context.Context, cfg Config) *Service {
	config.Defaults(&cfg.Settings)
	s := &Service{base: context.WithoutCancel(ctx), store: newStore(cfg.DB), bus: cfg.Bus, people: cfg.People, relations: cfg.Relations, cfg: cfg.Settings, log: cfg.Log, live: cfg.Live}
	s.messages, s.marks = newCommitter(s), newMarker(s)
	return s
}

// Run commits messages and marks until ctx ends; then it finishes what has been submitted.
func (s *Service) Run(ctx context.Context, ready func()) error {
	var both sync.WaitGroup
	both.Go(func() { _ = s.marks.Run(ctx) })
	defer both.Wait()
	ready()
	return s.messages.Run(ctx)
}

// maxPairs bounds the conversations that are remembered by their users.
const maxPairs = 1 << 16

// pairs remembers which conversation two users have, which never changes.
type pairs struct {
	mu sync.Mutex
	of map[pair]ConversationID
}

func (p *pairs) get(key pair) (ConversationID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, ok := p.of[key]
	return id, ok
}

func (p *pairs) add(key pair, id ConversationID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil || len(p.of) >= maxPairs {
		p.of = map[pair]ConversationID{}
	}
	p.of[key] = id
}

// between returns the conversation of two users, and makes one where there is none.
func (s *Service) between(ctx context.Context, a, b accounts.ID) (ConversationID, error) {
	key := pairOf(a, b)
	if id, ok := s.pairs.get(key); ok {
		return id, nil
	}
	found, err := s.store.findPairs(ctx, s.store.db, []pair{key}, "")
	if err == nil && len(found) == 0 {
		found, err = s.store.createPairs(ctx, []pair{key})
	}
	if err != nil {
		return ConversationID{}, err
	}
	s.pairs.add(key, found[key])
	return found[key], nil
}

// Send stores a message to another user and returns it once it is committed; again
// reports that it was there already. ErrSelf, ErrClientID, ErrContent, ErrReply, ErrRefused,
// ErrYouBlock, ErrReused, ErrMessage (of a message to forward), accounts.ErrNoUser, ErrStore.
func (s *Service) Send(ctx context.Context, from, to accounts.ID, in api.Send) (_ api.Sent, again bool, err error) {
	defer errs.Wrap(&err, "messaging.Send %s", from)
	if from == to {
		return api.Sent{}, false, ErrSelf
	}
	if !clientIDs.MatchString(in.ClientID) {
		return api.Sent{}, false, ErrClientID
	}
	hash, err := hashOf(in)
	if err != nil {
		return api.Sent{}, false, err
	}
	what := said{Content: in.Content}
	if in.Forward != nil {
		if what, err = s.forwarded(ctx, from, *in.Forward); err != nil {
			return api.Sent{}, false, asKind(ctx, err)
		}
	} else if what.Content, err = checkContent(in.Content); err != nil {
		return api.Sent{}, false, err
	}
	if err := s.mayWrite(ctx, from, to); err != nil {
		return api.Sent{}, false, asKind(ctx, err)
	}
	conv, err := s.between(ctx, from, to)
	if err != nil {
		return api.Sent{}, false, asKind(ctx, err)
	}
	got, err := s.messages.Do(ctx, sending{conv: conv, from: from, to: to, clientID: in.ClientID, hash: hash, said: what, reply: in.ReplyTo})
	if err = asKind(ctx, err); err == nil {
		err = got.refusal
	}
	if err != nil {
		return api.Sent{}, false, err
	}
	return api.Sent{ID: got.id.String(), Chat: chatWith(to), Seq: got.seq, At: moment(got.at)}, got.again, nil
}

// forwarded returns what a message says that the user can read, and where it came from.
func (s *Service) forwarded(ctx context.Context, user accounts.ID, ref api.MessageRef) (said, error) {
	peer, err := parseChat(ref.Chat)
	if err != nil {
		return said{}, err
	}
	v, err := s.store.view(ctx, s.store.db, user, peer)
	if err != nil {
		return said{}, err
	}
	m, err := s.store.one(ctx, s.store.db, v, ref.Seq)
	switch {
	case err != nil:
		return said{}, err
	case m.recalled != 0:
		return said{}, ErrRecalled
	case m.said.Forwarded == nil:
		m.said.Forwarded = &api.Forwarded{From: m.from.String(), At: moment(m.at)}
	}
	m.said.Mentions = nil
	return m.said, nil
}

// mayWrite refuses a message between two users. It does not tell a block from a setting.
func (s *Service) mayWrite(ctx context.Context, from, to accounts.ID) error {
	who, err := s.people.Profiles(ctx, []accounts.ID{to})
	if err != nil {
		return err
	}
	p, there := who[to]
	switch {
	case !there:
		return accounts.ErrNoUser
	case p.Deleted:
		return ErrRefused
	}
	if mine, err := s.relations.IsBlocked(ctx, from, to); err != nil || mine {
		return cmp.Or(err, error(ErrYouBlock))
	}
	if theirs, err := s.relations.IsBlocked(ctx, to, from); err != nil || theirs {
		return cmp.Or(err, error(ErrRefused))
	}
	set, err := s.store.settings(ctx, s.store.db, to)
	if err != nil {
		return err
	}
	policy := set[to].from
	if policy == Unset {
		policy = parsePolicy(s.cfg.MessagesFrom)
	}
	switch policy {
	case Everybody:
		return nil
	case Nobody:
		return ErrRefused
	}
	friends, err := s.relations.IsFriend(ctx, to, from)
	if err != nil || friends {
		return err
	}
	return ErrRefused
}

// Range says which messages of a chat are wanted: those after a number, those before one,
// or those around one; without any the newest.
type Range struct {
	After, Before, Around int64
	Limit                 int
}

// List returns a part of a chat's messages. ErrChat, ErrStore.
func (s *Service) List(ctx context.Context, user, peer accounts.ID, r Range) (_ api.Messages, err error) {
	defer errs.Wrap(&err, "messaging.List %s", user)
	v, err := s.view(ctx, user, peer)
	if err != nil {
		return api.Messages{}, err
	}
	from := func(after, before int64, backwards bool, n int) ([]message, bool, error) {
		found, err := s.store.messages(ctx, s.store.db, user, v.id, max(after, v.me.cleared), before, backwards, n+1)
		more := len(found) > n
		found = found[:min(len(found), n)]
		if backwards {
			slices.Reverse(found)
		}
		return found, more, err
	}
	var found []message
	var more bool
	switch {
	case r.Around > 0:
		half := max(1, r.Limit/2)
		var later []message
		if found, more, err = from(0, r.Around+1, true, half); err == nil {
			later, _, err = from(r.Around, math.MaxInt64, false, r.Limit-half)
			found = append(found, later...)
		}
	case r.After > 0:
		found, more, err = from(r.After, math.MaxInt64, false, r.Limit)
	case r.Before > 0:
		found, more, err = from(0, r.Before, true, r.Limit)
	default:
		found, more, err = from(0, math.MaxInt64, true, r.Limit)
	}
	if err != nil {
		return api.Messages{}, asKind(ctx, err)
	}
	out := api.Messages{Messages: make([]api.Message, len(found)), More: more, Seq: v.seq, Rev: v.rev}
	for i, m := range found {
		out.Messages[i] = m.wire(user, chatWith(peer))
	}
	return out, nil
}

// changesAtOnce bounds one answer of [Service.Changes].
const changesAtOnce = 100

// Changes returns what has changed of a chat's messages since a rev. ErrChat, ErrStore.
func (s *Service) Changes(ctx context.Context, user, peer accounts.ID, since int64) (_ api.MessageChanges, err error) {
	defer errs.Wrap(&err, "messaging.Changes %s", user)
	v, err := s.view(ctx, user, peer)
	if err != nil {
		return api.MessageChanges{}, err
	}
	found, err := s.store.changedMessages(ctx, s.store.db, user, v.id, v.me.cleared, since, changesAtOnce)
	if err != nil {
		return api.MessageChanges{}, asKind(ctx, err)
	}
	gone, err := s.store.hiddenSince(ctx, s.store.db, user, v.id, since, changesAtOnce)
	if err != nil {
		return api.MessageChanges{}, asKind(ctx, err)
	}
	out := api.MessageChanges{Changed: []api.Message{}, Rev: v.rev}
	if len(found) == changesAtOnce {
		out.More, out.Rev = true, found[len(found)-1].rev
	}
	if len(gone) == changesAtOnce {
		out.More, out.Rev = true, min(out.Rev, gone[len(gone)-1].rev)
	}
	for _, h := range gone {
		if h.rev <= out.Rev {
			out.Hidden = append(out.Hidden, h.seq)
		}
	}
	for _, m := range found {
		if m.rev <= out.Rev {
			out.Changed = append(out.Changed, m.wire(user, chatWith(peer)))
		}
	}
	return out, nil
}

func (s *Service) view(ctx context.Context, user, peer accounts.ID) (view, error) {
	v, err := s.store.view(ctx, s.store.db, user, peer)
	return v, asKind(ctx, err)
}

// bounded returns an error for a mark ahead of the chat.
func (v view) bounded(seq int64) error {
	if seq > v.seq {
		return fmt.Errorf("%d of %d: %w", seq, v.seq, ErrFuture)
	}
	return nil
}
