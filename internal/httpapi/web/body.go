package web

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/bind"
)

// readBody reads the body. Its deadline is already set, unless the operation has its own; net/http clears it at the
// end of the body.
func readBody(c *call, r *http.Request, rt *route) ([]byte, *problem) {
	if r.ContentLength == 0 {
		return nil, nil // [bind.Input.Bind] checks whether the body is required
	}
	if !rt.in.Accepts(r.Header["Content-Type"]) {
		return nil, newProblem(http.StatusUnsupportedMediaType, rt.errMediaType())
	}
	if r.ContentLength > rt.op.MaxBody {
		c.Header().Set("Connection", "close")
		return nil, newProblem(http.StatusRequestEntityTooLarge, errTooLarge)
	}
	if rt.op.BodyTime > 0 {
		_ = http.NewResponseController(c).SetReadDeadline(c.start.Add(rt.op.BodyTime))
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	// MaxBytesReader can only make the server's own ResponseWriter close the connection.
	_, err := buf.ReadFrom(http.MaxBytesReader(c.ResponseWriter, r.Body, rt.op.MaxBody))
	body := buf.Bytes()
	switch {
	case err == nil && rt.in.Media() == "" && !utf8.Valid(body):
		return nil, newProblem(http.StatusBadRequest, bind.ErrMalformed.On("body", "is not UTF-8"))
	case err == nil:
		return body, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.Header().Set("Connection", "close")
		return nil, newProblem(http.StatusRequestTimeout, errTimeout)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, newProblem(http.StatusRequestEntityTooLarge, errTooLarge)
	}
	return nil, newProblem(http.StatusBadRequest, bind.ErrMalformed.On("body", "ended too early"))
}

func (rt *route) errMediaType() *errs.Error {
	if rt.in.Media() == "" {
		return errMediaType
	}
	return errs.New(errMediaType.Kind, errMediaType.Code, "The body must be "+rt.in.Media()+".")
}

var onlyJSON = []string{bind.JSON}
