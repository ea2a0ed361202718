package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Card is what other users scan to find a user. Caches store it as JSON: see keyspace.Doc.Version before you change the
// JSON.
type Card struct {
	User    ID        `json:"user"`
	Name    string    `json:"name"` // 128 random bits; see mint.cardToken
	Expires time.Time `json:"expires"`
}

// cardLife is the lifetime of a card. It lasts over a weekend, on paper or as a photo of a screen.
const cardLife = 48 * time.Hour

// ErrNoCard reports a token without a valid card.
var ErrNoCard = errs.New(errs.NotFound, "card.unknown", "There is no such card, or it has expired.")

// ErrNotDrawn reports that the user has no card to show.
var ErrNotDrawn = errs.New(errs.NotFound, "card.not_drawn", "You have no card. Create one first.")

// CardChanged invalidates the cache entries of a card.
var CardChanged = cache.NewEvent[Card]("card drawn or withdrawn")

// cards caches the cards by user and by token.
type cards struct {
	byUser  *cache.Cache[ID, Card]
	byToken *cache.Cache[keyspace.Hashed, Card]
}

// newCards returns the cards in db. A card can be withdrawn while Redis is unavailable ([cache.Proceed]). A node that
// still reaches Redis may accept the card until the pending drop is done.
func newCards(db *sqldb.DB, rt *cache.Runtime, p cache.Policy) cards {
	p.Unfenced = cache.Proceed
	found := func(c Card, err error) (Card, error) {
		if errors.Is(err, ErrNoCard) || err == nil && !c.Expires.After(db.Now()) {
			err = cache.ErrNotFound
		}
		return c, err
	}
	life := func(c Card) time.Duration { return max(time.Second, c.Expires.Sub(db.Now())) }
	c := cards{
		byUser: cache.New(rt, cardKeys, p, cache.Source[ID, Card]{Life: life, Load: func(ctx context.Context, user ID) (Card, error) {
			return found(selectCard(ctx, db, user))
		}}),
		byToken: cache.New(rt, cardTokenKeys, p, cache.Source[keyspace.Hashed, Card]{Life: life,
			Load: func(ctx context.Context, name keyspace.Hashed) (Card, error) {
				return found(selectCardByName(ctx, db, name.S))
			}}),
	}
	cache.DropsBy(rt, CardChanged, func(c Card) ID { return c.User }, c.byUser)
	cache.DropsBy(rt, CardChanged, func(c Card) keyspace.Hashed { return keyspace.Hashed{S: c.Name} }, c.byToken)
	return c
}

// Card returns the card of the user, or ErrNotDrawn if there is none or it has expired.
func (s *Service) Card(ctx context.Context, user ID) (_ Card, err error) {
	defer errs.Wrap(&err, "accounts.Card %s", user)
	c, err := s.cards.byUser.Get(ctx, user)
	if errors.Is(err, cache.ErrNotFound) || err == nil && !c.Expires.After(s.db.Now()) {
		c, err = selectCard(ctx, s.db, user) // another node may have just drawn it
	}
	if errors.Is(err, ErrNoCard) || err == nil && !c.Expires.After(s.db.Now()) {
		return Card{}, ErrNotDrawn
	} else if err != nil {
		return Card{}, loadError(ctx, err)
	}
	return c, nil
}

// DrawCard returns the card of the user. It creates a new card if there is none or it has expired.
func (s *Service) DrawCard(ctx context.Context, user ID) (_ Card, err error) {
	defer errs.Wrap(&err, "accounts.DrawCard %s", user)
	if c, err := s.Card(ctx, user); !errors.Is(err, ErrNotDrawn) {
		return c, err
	}
	drawn := Card{User: user, Name: newNonce()}
	err = s.commit(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := lockLiving(ctx, tx, user); err != nil { // one draw at a time per user
			return err
		}
		held, err := selectCard(ctx, tx, user)
		if err == nil && held.Expires.After(tx.Now()) {
			drawn = held
			return nil
		} else if err != nil && !errors.Is(err, ErrNoCard) {
			return err
		}
		drawn.Expires = tx.Now().Add(cardLife)
		return upsertCard(ctx, tx, drawn)
	}, CardChanged.Of(s.caches.Runtime, drawn)...)
	return drawn, err
}

// CardToken returns the token of a card, for [Service.CardOwner].
func (s *Service) CardToken(c Card) string { return s.mint.cardToken(c.Name) }

// WithdrawCard invalidates the card of the user, if there is one.
func (s *Service) WithdrawCard(ctx context.Context, user ID) (err error) {
	defer errs.Wrap(&err, "accounts.WithdrawCard %s", user)
	held, err := selectCard(ctx, s.db, user)
	if errors.Is(err, ErrNoCard) {
		return nil
	} else if err != nil {
		return asKind(err)
	}
	return s.commit(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return deleteCard(ctx, tx, held)
	}, CardChanged.Of(s.caches.Runtime, held)...)
}

// CardOwner returns the owner of a card. It returns ErrNoCard for the cards of deleted and banned users.
func (s *Service) CardOwner(ctx context.Context, token string) (_ ID, err error) {
	defer errs.Wrap(&err, "accounts.CardOwner")
	if !isNonce(token) {
		return ID{}, ErrNoCard
	}
	now := s.db.Now()
	c, err := s.cards.byToken.Get(ctx, keyspace.Hashed{S: s.mint.cardName(token)})
	if s.previous != nil && errors.Is(err, cache.ErrNotFound) {
		c, err = s.cards.byToken.Get(ctx, keyspace.Hashed{S: s.previous.cardName(token)})
	}
	if errors.Is(err, cache.ErrNotFound) || err == nil && !c.Expires.After(now) {
		return ID{}, ErrNoCard
	} else if err != nil {
		return ID{}, loadError(ctx, err)
	}
	u, err := s.users.get(ctx, c.User)
	if errors.Is(err, ErrNoUser) || err == nil && (u.Deleted() || u.Banned.After(now)) {
		return ID{}, ErrNoCard
	}
	return c.User, err
}

// isNonce reports whether s has the format of newNonce.
func isNonce(s string) bool {
	const length = 22
	if len(s) != length {
		return false
	}
	for i := range length {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
