package web

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
)

var (
	errKey      = errs.New(errs.Invalid, "idempotency.key", "An Idempotency-Key is one header of 1 to 128 printable ASCII characters.")
	errMismatch = errs.New(errs.Conflict, "idempotency.mismatch", "This Idempotency-Key was used for another request.")
	errBusy     = errs.New(errs.Conflict, "idempotency.busy", "The first request with this Idempotency-Key is still running.")
)

const (
	// keepAnswers is how long a key means the same request.
	keepAnswers = 24 * time.Hour

	// claimLife is how long a try may run before it counts as dead. A living one
	// is stopped earlier.
	claimLife = 30 * time.Second
	tryLife   = 25 * time.Second

	// orphanLife is that of a try whose node is not among the living: a lease ends four
	// seconds after its last renewal, and an emptied Redis has none for a second.
	orphanLife = 5 * time.Second

	// liveTime is how long the question who lives may take.
	liveTime = 200 * time.Millisecond

	// storeTime is how long storing may go on after the client left.
	storeTime = 5 * time.Second

	// storeGrace is how long a request waits for its answer to be stored at least, even if it has no time left.
	storeGrace = 300 * time.Millisecond

	// batchTime is how long the statements of a batch may take.
	batchTime = 5 * time.Second

	// maxStored bounds a stored answer; a larger one is not kept.
	maxStored = 1 << 20

	// sweepChunk keeps a sweep's transactions short.
	sweepChunk = 500
)

// once lets the handler run at most once for the request's Idempotency-Key, or
// replays what it answered. Where that was not stored, the handler runs again, with the
// same [RequestID] and [NewID].
func (a *API) once(ctx context.Context, c *call, r *http.Request, body []byte) {
	key, ok := idempotencyKey(r.Header)
	if !ok {
		c.refuse(newProblem(http.StatusBadRequest, errKey))
		return
	}
	rec := record{Scope: c.scope(), Key: key,
		RequestHash: c.route.in.requestHash(a.mac(), r, body), plainHash: c.route.in.requestHash(sha256.New(), r, body)}
	if a.cfg.SecretPrevious != nil {
		rec.previousHash = c.route.in.requestHash(hmac.New(sha256.New, a.cfg.SecretPrevious), r, body)
	}
	if op := c.route.op; a.cfg.DB == nil || op.NoReplay && !op.Creates {
		c.id = rec.requestID()
		a.answer(ctx, c, c, r, body)
		return
	}
	rec, err := a.answers.claim(ctx, rec)
	switch {
	case err != nil:
		c.refuse(a.refusal(ctx, err))
		return
	case rec.Status != 0:
		h := c.Header()
		h.Set("Idempotency-Replayed", "true")
		if rec.ContentType != "" {
			h.Set("Content-Type", rec.ContentType)
		}
		if replay := c.route.op.Replay; replay != nil && rec.Status < http.StatusBadRequest {
			replay(h, rec.Body)
		}
		c.WriteHeader(rec.Status)
		// A failed write has nobody left to tell.
		_, _ = c.Write(rec.Body)
		return
	}
	c.id, c.seed = rec.requestID(), rec.seed(a.macOf(rec))
	a.runClaimed(ctx, c, r, body, rec)
}

// scope is within what an Idempotency-Key names one call: the user's, and the operation. It begins with the
// user, see [API.Erase]; what a delegate does in the name of one is apart from what that user does.
func (c *call) scope() string {
	scope := c.as.UserID() + " " + c.route.op.ID
	if who := c.user(); who != c.as.UserID() {
		scope += " " + who
	}
	return scope
}

// runClaimed lets the handler run and stores its answer before sending it, so that
// whoever has seen the answer gets it again.
func (a *API) runClaimed(ctx context.Context, c *call, r *http.Request, body []byte, rec record) {
	trying, cancel := context.WithTimeout(ctx, tryLife)
	defer cancel()
	answer, whole := &recorder{ResponseWriter: c}, false
	defer func() { // also when the handler panics
		keep, stop := toStore(ctx)
		defer stop()
		if whole && answer.keeps() && !c.route.op.NoReplay {
			rec.Status, rec.ContentType, rec.Body = answer.status, c.Header().Get("Content-Type"), answer.body.Bytes()
		}
		if err := a.answers.finish(keep, rec); err != nil { // the claim lapses by itself
			a.complain(ctx, slog.LevelError, "answer not stored", err)
		}
		if whole {
			answer.send()
		}
	}()
	a.answer(trying, c, answer, r, body)
	whole = true
}

// Sweep removes stored answers that have expired at now and returns how many.
// Run it every few minutes on one node; nothing depends on it but disk space.
func (a *API) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	if a.cfg.DB == nil {
		return 0, nil
	}
	for {
		n, err := deleteExpired(ctx, a.cfg.DB, now.UnixMilli())
		removed += n
		if err != nil || n < sweepChunk {
			return removed, err
		}
	}
}

// idempotencyKey returns the key, or false if it is malformed.
func idempotencyKey(h http.Header) (string, bool) {
	lines := h["Idempotency-Key"]
	if len(lines) != 1 || lines[0] == "" || len(lines[0]) > 128 {
		return "", false
	}
	for i := range len(lines[0]) {
		if c := lines[0][i]; c < ' ' || c > '~' {
			return "", false
		}
	}
	return lines[0], true
}

// mac makes hashes under the server's secret. A plain one of a body with a password in it could be tried out by
// whoever reads the table.
func (a *API) mac() hash.Hash { return hmac.New(sha256.New, a.cfg.Secret) }

// macOf is mac under the secret with which the first try of a request was stored, so that each try has the same seed.
func (a *API) macOf(rec record) hash.Hash {
	if rec.previousHash != "" && rec.RequestHash == rec.previousHash {
		return hmac.New(sha256.New, a.cfg.SecretPrevious)
	}
	return a.mac()
}

// requestHash tells requests of one operation apart by a hash, also by the headers that it reads. Two bodies that mean
// the same in other bytes are different requests.
func (in *input) requestHash(sum hash.Hash, r *http.Request, body []byte) string {
	parts := []string{r.URL.Path, r.URL.RawQuery, string(body)}
	for i := range in.params {
		if p := &in.params[i]; p.in == "header" {
			parts = append(parts, p.from(r))
		}
	}
	for _, part := range parts {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		sum.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// name is the same for every try of one request. The time of the first
// try is in it, because after a day the same key means another request.
func (rec record) name() []byte {
	return []byte(rec.Scope + "\x00" + rec.Key + "\x00" + strconv.FormatInt(rec.Created, 10))
}

func (rec record) requestID() uint64 {
	sum := sha256.Sum256(rec.name())
	return max(1, binary.BigEndian.Uint64(sum[:])&maxID)
}

// seed is what nobody without the secret can tell of a request.
func (rec record) seed(mac hash.Hash) []byte {
	mac.Write(rec.name())
	return mac.Sum(nil)
}

// recorder holds an answer back.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// keeps reports whether the answer holds for a retry as well.
func (w *recorder) keeps() bool {
	switch {
	case w.status >= statusGone || w.body.Len() > maxStored:
		return false
	case w.status == http.StatusRequestTimeout || w.status == http.StatusTooManyRequests:
		return false
	}
	return true
}

// send passes the answer on.
func (w *recorder) send() {
	w.ResponseWriter.WriteHeader(w.status)
	// A failed write has nobody left to tell.
	_, _ = w.ResponseWriter.Write(w.body.Bytes())
}

// Erase removes all answers stored for a user.
func (a *API) Erase(ctx context.Context, user string) error {
	if a.cfg.DB == nil {
		return nil
	}
	return eraseRecords(ctx, a.cfg.DB, user)
}
