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

// Config configures the service.
type Config struct {
	DB       *sqldb.DB
	Limiter  *ratelimit.Limiter
	Attempts *attempts.Counter
	Log      *slog.Logger
	Metrics  prometheus.Registerer // nil disables metrics

	MAC    MAC           // with the server's secret
	Life   time.Duration // of a code, at most [MaxLife]
	Limits Limits

	// Knows reports whether the account of an address has been used from a client network.
	Knows func(ctx context.Context, e emails.Address, clientNet string) (bool, error)

	// Owner returns the address of its account in the owner's spelling, or "" if there is none or it is the account of
	// except.
	Owner func(ctx context.Context, q sqldb.Querier, email, except string) (string, error)
}

// Service creates and checks codes. It is safe for concurrent use.
type Service struct {
	db       *sqldb.DB
	limiter  *ratelimit.Limiter
	attempts *attempts.Counter
	log      *slog.Logger
	metrics  *prometheus.CounterVec
	mac      MAC
	life     time.Duration
	limits   Limits
	knows    func(ctx context.Context, e emails.Address, clientNet string) (bool, error)
	owner    func(ctx context.Context, q sqldb.Querier, email, except string) (string, error)

	suspensions suspensions
}

// New returns the service.
func New(cfg Config) *Service {
	return &Service{
		db: cfg.DB, limiter: cfg.Limiter, attempts: cfg.Attempts, log: cfg.Log, metrics: newMetrics(cfg.Metrics),
		mac: cfg.MAC, life: cfg.Life, limits: cfg.Limits, knows: cfg.Knows, owner: cfg.Owner,
	}
}

// newMetrics registers with reg, unless it is nil.
func newMetrics(reg prometheus.Registerer) *prometheus.CounterVec {
	codes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stoa_accounts_codes_total",
		Help: "Verification codes by result: asked (requested and mailed), refused (by a limit), wrong (guesses)."}, []string{"result"})
	for _, result := range []string{"asked", "refused", "wrong"} {
		codes.WithLabelValues(result)
	}
	if reg != nil {
		reg.MustRegister(codes)
	}
	return codes
}

// Send creates a code, replaces an earlier one, and enqueues its mail. A code that was requested from a known client
// network is not replaced: requests of strangers are then counted but not mailed. It returns ErrTooMany if a limit is
// reached.
func (s *Service) Send(ctx context.Context, p Proof, clientNet string) error {
	known, err := s.knows(ctx, p.Email, clientNet)
	if err != nil {
		return err
	}
	switch r, err := s.mayMail(ctx, p, clientNet, known); {
	case err != nil:
		return err
	case !r.Allowed:
		s.metrics.WithLabelValues("refused").Inc()
		return ErrTooMany.Retry(r.Reset)
	}
	notice := Notice{To: p.Email.Given, Purpose: p.Purpose, User: p.User, Seed: rand.Text(), Lang: i18n.From(ctx)}
	c := s.storedCode(p, s.mac.code(p, notice.Seed))
	if known {
		c.clientNet = clientNet
	}
	if err := s.replace(ctx, p, c, notice); err != nil {
		return err
	}
	s.metrics.WithLabelValues("asked").Inc()
	s.attempts.Settle(ctx, []attempts.Meter{s.meter(p, clientNet)}, nil) // the tries of the previous code
	return nil
}

// storedCode returns the stored form of a code.
func (s *Service) storedCode(p Proof, code string) Code {
	return Code{emailHash: s.mac.emailHash(p), purpose: p.Purpose, codeHash: s.mac.codeHash(p, code)}
}

// meter returns the counter of a code's tries from one client network.
func (s *Service) meter(p Proof, clientNet string) attempts.Meter {
	return attempts.Meter{Key: triesKeys.At(p.segment(clientNet), p.Purpose).Key, Cap: triesOfOne, Life: s.life}
}

// Check counts a try from a client network and compares the code. It does not consume the code: the transaction of its
// purpose does, see [Code.Consume]. While codes are suspended, the account of the address must know the client network,
// even if the caller is logged in: otherwise an attacker with many accounts could guess codes of ever new addresses. It
// returns ErrWrong or ErrSuspended.
func (s *Service) Check(ctx context.Context, p Proof, code, from string) (Code, error) {
	network := clientnet.Network(from)
	if suspended := s.suspensions.check(network, s.db.Now()); suspended != nil {
		if known, err := s.knows(ctx, p.Email, from); err != nil || !known {
			return Code{}, cmp.Or(err, suspended)
		}
	}
	if !s.attempts.Allows(ctx, s.meter(p, from)) {
		return Code{}, errWrong
	}
	c := s.storedCode(p, code)
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

// errWrong is ErrWrong for the usual place of the code.
var errWrong = Wrong("body.code")
