package web

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/stoa-dev/stoa/internal/httpapi/bind"
	"github.com/stoa-dev/stoa/internal/httpapi/idempotency"
)

// runOnce runs the handler at most once for the request's Idempotency-Key, or replays its stored response. If the
// response was not stored, the handler runs again, with the same [RequestID] and [NewID].
func (a *API) runOnce(ctx context.Context, c *call, r *http.Request, body []byte) {
	key, ok := idempotency.Key(r.Header)
	if !ok {
		c.refuse(newProblem(http.StatusBadRequest, idempotency.ErrKey))
		return
	}
	rec := a.secrets().Record(c.scope(), key, requestParts(c.route.in, r, body)...)
	if op := c.route.op; a.cfg.DB == nil || op.NoReplay && !op.Creates {
		c.id = rec.RequestID()
		a.answer(ctx, c, c, r, body)
		return
	}
	rec, err := a.answers.Claim(ctx, rec)
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
	c.id, c.seed = rec.RequestID(), a.secrets().Seed(rec)
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
func (a *API) runClaimed(ctx context.Context, c *call, r *http.Request, body []byte, rec idempotency.Record) {
	trying, cancel := context.WithTimeout(ctx, idempotency.TryTimeout)
	defer cancel()
	answer, whole := &recorder{ResponseWriter: c}, false
	defer func() { // also if the handler panics
		storing, stop := idempotency.StoreContext(ctx)
		defer stop()
		if whole && answer.isStorable() && !c.route.op.NoReplay {
			rec.Status, rec.ContentType, rec.Body = answer.status, c.Header().Get("Content-Type"), answer.body.Bytes()
		}
		if err := a.answers.Finish(storing, rec); err != nil { // otherwise the claim expires
			a.logFailure(ctx, slog.LevelError, "answer not stored", err)
		}
		if whole {
			answer.send()
		}
	}()
	a.answer(trying, c, answer, r, body)
	whole = true
}

func (a *API) secrets() idempotency.Secrets {
	return idempotency.Secrets{Current: a.cfg.Secret, Previous: a.cfg.SecretPrevious}
}

// requestParts returns the parts that distinguish requests of one operation, including the headers that it reads. Bodies
// with the same meaning but other bytes are different requests.
func requestParts(in *bind.Input, r *http.Request, body []byte) []string {
	return append([]string{r.URL.Path, r.URL.RawQuery, string(body)}, in.Headers(r)...)
}

// Sweep deletes the stored responses that have expired at now and returns their number. Run it every few minutes on
// one node; only disk space depends on it.
func (a *API) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	if a.answers == nil {
		return 0, nil
	}
	return a.answers.Sweep(ctx, now)
}

// Erase deletes all stored responses of a user.
func (a *API) Erase(ctx context.Context, user string) error {
	if a.answers == nil {
		return nil
	}
	return a.answers.Erase(ctx, user)
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
	case w.status >= statusGone || w.body.Len() > idempotency.MaxStored:
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
