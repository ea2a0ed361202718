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
	"github.com/stoa-dev/stoa/internal/httpapi/bind"
)

var (
	errKey      = errs.New(errs.Invalid, "idempotency.key", "Send one Idempotency-Key header of 1 to 128 printable ASCII characters.")
	errMismatch = errs.New(errs.Conflict, "idempotency.mismatch", "This Idempotency-Key was used for another request.")
	errBusy     = errs.New(errs.Conflict, "idempotency.busy", "The first request with this Idempotency-Key is still running.")
)

const (
	// answerTTL is the lifetime of a stored response: after it, a key identifies another request.
	answerTTL = 24 * time.Hour

	// claimTimeout is the age of a try that counts as dead. A live try is cancelled before, after tryTimeout.
	claimTimeout = 30 * time.Second
	tryTimeout   = 25 * time.Second

	// orphanTimeout replaces claimTimeout for a try whose node is not alive: a lease ends four seconds after its last
	// renewal, and an emptied Redis has no leases for a second.
	orphanTimeout = 5 * time.Second

	// liveTimeout bounds the query for the live nodes.
	liveTimeout = 200 * time.Millisecond

	// storeTimeout bounds the storing of a response after the client has disconnected.
	storeTimeout = 5 * time.Second

	// storeGrace is the shortest wait of a request for its response to be stored, even after its deadline.
	storeGrace = 300 * time.Millisecond

	// batchTimeout bounds the statements of a batch.
	batchTimeout = 5 * time.Second

	// maxStored is the largest response that is stored, in bytes.
	maxStored = 1 << 20

	// sweepChunk is the number of rows that one transaction of a sweep deletes.
	sweepChunk = 500
)

// runOnce runs the handler at most once for the request's Idempotency-Key, or replays its stored response. If the
// response was not stored, the handler runs again, with the same [RequestID] and [NewID].
func (a *API) runOnce(ctx context.Context, c *call, r *http.Request, body []byte) {
	key, ok := idempotencyKey(r.Header)
	if !ok {
		c.refuse(newProblem(http.StatusBadRequest, errKey))
		return
	}
	rec := record{Scope: c.scope(), Key: key,
		RequestHash: requestHash(a.mac(), c.route.in, r, body), plainHash: requestHash(sha256.New(), c.route.in, r, body)}
	if a.cfg.SecretPrevious != nil {
		rec.previousHash = requestHash(hmac.New(sha256.New, a.cfg.SecretPrevious), c.route.in, r, body)
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
		// A failed write means that the client has disconnected.
		_, _ = c.Write(rec.Body)
		return
	}
	c.id, c.seed = rec.requestID(), rec.seed(a.macOf(rec))
	a.runClaimed(ctx, c, r, body, rec)
}

// scope returns the name space of an Idempotency-Key: the user and the operation. It begins with the user; see
// [API.Erase]. The calls of a delegate for a user have a name space of their own.
func (c *call) scope() string {
	scope := c.as.UserID() + " " + c.route.op.ID
	if user := c.user(); user != c.as.UserID() {
		scope += " " + user
	}
	return scope
}

// runClaimed runs the handler and stores its response before sending it, so that a retry of a client that got the
// response gets the same one.
func (a *API) runClaimed(ctx context.Context, c *call, r *http.Request, body []byte, rec record) {
	trying, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	answer, whole := &recorder{ResponseWriter: c}, false
	defer func() { // also if the handler panics
		storing, stop := storeContext(ctx)
		defer stop()
		if whole && answer.isStorable() && !c.route.op.NoReplay {
			rec.Status, rec.ContentType, rec.Body = answer.status, c.Header().Get("Content-Type"), answer.body.Bytes()
		}
		if err := a.answers.finish(storing, rec); err != nil { // otherwise the claim expires
			a.logFailure(ctx, slog.LevelError, "answer not stored", err)
		}
		if whole {
			answer.send()
		}
	}()
	a.answer(trying, c, answer, r, body)
	whole = true
}

// Sweep deletes the stored responses that have expired at now and returns their number. Run it every few minutes on
// one node; only disk space depends on it.
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

// mac returns a hash under the server's secret. From an unkeyed hash of a body with a password, a reader of the table
// could guess the password.
func (a *API) mac() hash.Hash { return hmac.New(sha256.New, a.cfg.Secret) }

// macOf returns mac under the secret that the first try used, so that each try has the same seed.
func (a *API) macOf(rec record) hash.Hash {
	if rec.previousHash != "" && rec.RequestHash == rec.previousHash {
		return hmac.New(sha256.New, a.cfg.SecretPrevious)
	}
	return a.mac()
}

// requestHash returns a hash that distinguishes requests of one operation, including the headers that it reads.
// Bodies with the same meaning but other bytes are different requests.
func requestHash(sum hash.Hash, in *bind.Input, r *http.Request, body []byte) string {
	parts := append([]string{r.URL.Path, r.URL.RawQuery, string(body)}, in.Headers(r)...)
	for _, part := range parts {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		sum.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// name returns a name that is the same for every try of one request. It includes the time of the first try, because
// after a day the same key identifies another request.
func (rec record) name() []byte {
	return []byte(rec.Scope + "\x00" + rec.Key + "\x00" + strconv.FormatInt(rec.Created, 10))
}

func (rec record) requestID() uint64 {
	sum := sha256.Sum256(rec.name())
	return max(1, binary.BigEndian.Uint64(sum[:])&maxID)
}

// seed returns bytes of the request that are unpredictable without the secret.
func (rec record) seed(mac hash.Hash) []byte {
	mac.Write(rec.name())
	return mac.Sum(nil)
}

// recorder buffers a response.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// Unwrap supports http.ResponseController.
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

// isStorable reports whether the response is valid for a retry as well.
func (w *recorder) isStorable() bool {
	switch {
	case w.status >= statusGone || w.body.Len() > maxStored:
		return false
	case w.status == http.StatusRequestTimeout || w.status == http.StatusTooManyRequests:
		return false
	}
	return true
}

// send writes the buffered response to the client.
func (w *recorder) send() {
	w.ResponseWriter.WriteHeader(w.status)
	// A failed write means that the client has disconnected.
	_, _ = w.ResponseWriter.Write(w.body.Bytes())
}

// Erase deletes all stored responses of a user.
func (a *API) Erase(ctx context.Context, user string) error {
	if a.cfg.DB == nil {
		return nil
	}
	return eraseRecords(ctx, a.cfg.DB, user)
}
