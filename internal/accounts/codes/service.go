package codes

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts/attempts"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Config has what codes stand on.
type Config struct {
	DB       *sqldb.DB
	Limiter  *ratelimit.Limiter
	Attempts *attempts.Counter
	Log      *slog.Logger
	Metrics  prometheus.Registerer // nil: nothing is collected

	MAC    MAC           // by the server's secret
	Life   time.Duration // of a code, at most [MaxLife]
	Limits Limits

	// Knows reports whether an address has an account that has been used from a household.
	Knows func(ctx context.Context, e emails.Address, household string) (bool, error)

	// Owner returns the address, as its owner wrote it, of the account that has it; empty
	// when there is none, or when it is that of the user except.
	Owner func(ctx context.Context, q sqldb.Querier, email, except string) (string, error)
}

// Service makes codes and checks them. It is safe for concurrent use.
type Service struct {
	db       *sqldb.DB
	limiter  *ratelimit.Limiter
	attempts *attempts.Counter
	log      *slog.Logger
	metrics  *prometheus.CounterVec
	mac      MAC
	life     time.Duration
	limits   Limits
	knows    func(ctx context.Context, e emails.Address, household string) (bool, error)
	owner    func(ctx context.Context, q sqldb.Querier, email, except string) (string, error)

	suspensions suspensions
}

// New returns the codes on those parts.
func New(cfg Config) *Service {
	return &Service{
		db: cfg.DB, limiter: cfg.Limiter, attempts: cfg.Attempts, log: cfg.Log, metrics: newMetrics(cfg.Metrics),
		mac: cfg.MAC, life: cfg.Life, limits: cfg.Limits, knows: cfg.Knows, owner: cfg.Owner,
	}
}

// newMetrics registers with reg, unless it is nil.
func newMetrics(reg prometheus.Registerer) *prometheus.CounterVec {
	codes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_accounts_codes_total", Help: "Verification codes: asked for and mailed, refused by a limit, guessed wrong."}, []string{"result"})
	for _, result := range []string{"asked", "refused", "wrong"} {
		codes.WithLabelValues(result)
	}
	if reg != nil {
		reg.MustRegister(codes)
	}
	return codes
}

// Send makes a code, in the place of one that was asked for before, and has it
// mailed. A code that was asked for from a household that the account knows keeps its
// place: what strangers ask for then is counted, and not mailed. ErrTooMany.
func (s *Service) Send(ctx context.Context, p Proof, household string) error {
	known, err := s.knows(ctx, p.Email, household)
	if err != nil {
		return err
	}
	switch r, err := s.mayMail(ctx, p, household, known); {
	case err != nil:
		return err
	case !r.Allowed:
		s.metrics.WithLabelValues("refused").Inc()
		return ErrTooMany.Retry(r.Reset)
	}
	notice := Notice{To: p.Email.Given, Purpose: p.Purpose, User: p.User, Seed: rand.Text(), Lang: i18n.From(ctx)}
	c := s.of(p, s.mac.code(p, notice.Seed))
	if known {
		c.household = household
	}
	if err := s.replace(ctx, p, c, notice); err != nil {
		return err
	}
	s.metrics.WithLabelValues("asked").Inc()
	s.attempts.Settle(ctx, []attempts.Meter{s.meter(p, household)}, nil) // those of the code before
	return nil
}

// of returns a code as it is stored.
func (s *Service) of(p Proof, code string) Code {
	return Code{emailHash: s.mac.emailHash(p), purpose: p.Purpose, codeHash: s.mac.codeHash(p, code)}
}

// meter counts the tries of a code from one household.
func (s *Service) meter(p Proof, household string) attempts.Meter {
	return attempts.Meter{Key: triesKeys.At(p.segment(household), p.Purpose).Key, Cap: triesOfOne, Life: s.life}
}

// Check counts a try from a household and compares. The code is not used up by
// it: that belongs into the transaction of what the code is for, see [Code.Consume]. While
// codes are suspended, the account of the address has to know the household, whoever is
// logged in: else one with many accounts would guess codes of ever new addresses at
// home. ErrWrong, ErrSuspended.
func (s *Service) Check(ctx context.Context, p Proof, code, from string) (Code, error) {
	network := clientnet.Network(from)
	if suspended := s.suspensions.of(network, s.db.Now()); suspended != nil {
		if known, err := s.knows(ctx, p.Email, from); err != nil || !known {
			return Code{}, cmp.Or(err, suspended)
		}
	}
	if !s.attempts.Allows(ctx, s.meter(p, from)) {
		return Code{}, errWrong
	}
	c := s.of(p, code)
	stored, err := try(ctx, s.db, c, from)
	if err != nil {
		return Code{}, err
	}
	if stored == "" {
		return Code{}, errWrong
	}
	if subtle.ConstantTimeCompare([]byte(stored), []byte(c.codeHash)) != 1 {
		s.wrong(ctx, network)
		return Code{}, errWrong
	}
	return c, nil
}

// errWrong is ErrWrong where most requests have the code.
var errWrong = Wrong("body.code")
