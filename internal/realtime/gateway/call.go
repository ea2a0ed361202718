package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/centrifugal/centrifuge"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/httpapi/bind"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
)

// call runs a client's RPC like a request. Calls of one connection run concurrently; a client that needs an order
// waits for each reply.
func (g *Gateway) call(c *connection, e centrifuge.RPCEvent, reply centrifuge.RPCCallback) {
	in, err := parseCall(e.Method, e.Data)
	if err != nil {
		g.metrics.calls.WithLabelValues(strconv.Itoa(http.StatusBadRequest)).Inc()
		reply(centrifuge.RPCReply{}, err)
		return
	}
	in.Opened = c.opened
	in.Caller = func(ctx context.Context) (web.Caller, error) { return g.stillHere(ctx, c) }
	if !c.begin() {
		reply(centrifuge.RPCReply{}, centrifuge.DisconnectConnectionClosed)
		return
	}
	g.calls.run(func() {
		defer c.end()
		got := g.cfg.API.Invoke(c.client.Context(), in)
		g.metrics.calls.WithLabelValues(strconv.Itoa(got.Status)).Inc()
		reply(rpcReply(got))
	})
}

// maxMethodLength is the largest length of a method. All operation ids are much shorter.
const maxMethodLength = 64

// errCall refuses data that is not an [api.SocketCall].
var errCall = &centrifuge.Error{Code: http.StatusBadRequest,
	Message: "request.malformed: Send one JSON object with any of path, query, body and key."}

// parseCall parses the data of an RPC.
func parseCall(method string, data []byte) (in web.Invocation, err error) {
	if len(method) > maxMethodLength {
		return in, centrifuge.ErrorMethodNotFound
	}
	in.Op = method
	if len(data) == 0 {
		return in, nil
	}
	var call struct {
		Path  map[string]scalar `json:"path"`
		Query map[string]listed `json:"query"`
		Body  json.RawMessage   `json:"body"`
		Key   string            `json:"key"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if d.Decode(&call) != nil {
		return in, errCall
	}
	if _, err := d.Token(); err != io.EOF { // More would ignore a surplus bracket
		return in, errCall
	}
	in.Path, in.Query, in.Key = textValues(call.Path), textValues(call.Query), call.Key
	if string(call.Body) != "null" {
		in.Body = call.Body
	}
	return in, nil
}

// scalar is a JSON string, number or boolean, as its text in a URL.
type scalar string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scalar) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '"':
		return json.Unmarshal(b, (*string)(s))
	case '{', '[', 'n':
		return errCall
	}
	*s = scalar(bind.Whole(string(b)))
	return nil
}

// listed is a scalar or a list of scalars, as its text in a URL: separated by commas.
type listed string

// UnmarshalJSON implements json.Unmarshaler.
func (l *listed) UnmarshalJSON(b []byte) error {
	if b[0] != '[' {
		return (*scalar)(l).UnmarshalJSON(b)
	}
	var all []scalar
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	for i, s := range all {
		if i > 0 {
			*l += ","
		}
		*l += listed(s)
	}
	return nil
}

func textValues[S ~string](m map[string]S) map[string]string {
	if len(m) == 0 {
		return nil
	}
	values := make(map[string]string, len(m))
	for name, v := range m {
		values[name] = string(v)
	}
	return values
}

var noBody = []byte("{}")

// rpcReply returns the reply to a client: the body of the response, or an error. The error has the HTTP status as its
// code, and its message begins with the code of the problem document.
func rpcReply(a web.Response) (centrifuge.RPCReply, error) {
	if a.Status < http.StatusBadRequest {
		if len(a.Body) == 0 {
			a.Body = noBody
		}
		return centrifuge.RPCReply{Data: a.Body}, nil
	}
	var p api.Problem
	if json.Unmarshal(a.Body, &p) != nil || p.Code == "" {
		return centrifuge.RPCReply{}, centrifuge.ErrorInternal
	}
	text := p.Code + ": " + p.Detail
	for _, f := range p.Errors {
		text += " " + f.Location + ": " + strings.TrimSuffix(f.Message, ".") + "."
	}
	if after := a.Header.Get("Retry-After"); after != "" {
		text += " Retry after " + after + " s."
	}
	return centrifuge.RPCReply{}, &centrifuge.Error{Code: uint32(a.Status), Message: text, //nolint:gosec // three digits
		Temporary: a.Status == http.StatusTooManyRequests || a.Status >= http.StatusInternalServerError}
}
