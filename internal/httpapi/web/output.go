package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"sync"
)

// output describes how a handler's output becomes a response.
type output struct {
	headers []header
	status  int   // used without a field Status
	code    []int // index of the field Status; nil if there is none
	body    []int // index of the field Body; nil if there is none
	raw     bool  // Body is []byte
	serve   []int // index of the field Serve; nil if there is none
}

// header is a string field that is sent unless it is empty.
type header struct {
	index []int
	name  string
}

// newOutput panics if t's fields cannot be sent. A status of zero means 200, or 204 without a Body.
func newOutput(t reflect.Type, status int) *output {
	out := &output{status: status}
	for _, f := range reflect.VisibleFields(t) {
		switch {
		case f.Anonymous || !f.IsExported():
		case f.Name == "Status":
			out.code = f.Index
		case f.Name == "Body":
			out.body, out.raw = f.Index, f.Type == reflect.TypeFor[[]byte]()
		case f.Type == reflect.TypeFor[http.HandlerFunc]():
			out.serve = f.Index
		case f.Type.Kind() != reflect.String || f.Tag.Get("header") == "":
			panic("web: " + t.String() + "." + f.Name + " must be a string with a header tag")
		default:
			out.headers = append(out.headers, header{f.Index, http.CanonicalHeaderKey(f.Tag.Get("header"))})
		}
	}
	switch {
	case status != 0:
	case out.body != nil || out.serve != nil:
		out.status = http.StatusOK
	default:
		out.status = http.StatusNoContent
	}
	return out
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooled is the largest buffer that returns to the pool, so that one large response does not keep its memory.
const maxPooled = 64 << 10

// write sends a handler's output, a pointer to the operation's struct, as the response to r. It fails if a body
// cannot be encoded; then nothing has been sent.
func (out *output) write(w http.ResponseWriter, r *http.Request, answer any) error {
	v := reflect.ValueOf(answer)
	if v.IsNil() {
		w.WriteHeader(out.status)
		return nil
	}
	v = v.Elem()
	var body []byte
	h := w.Header()
	switch {
	case out.body == nil:
	case out.raw:
		body = v.FieldByIndex(out.body).Bytes()
	default:
		buf := buffers.Get().(*bytes.Buffer)
		defer func() {
			if buf.Cap() <= maxPooled {
				buf.Reset()
				buffers.Put(buf)
			}
		}()
		if err := encode(buf, v.FieldByIndex(out.body).Addr().Interface()); err != nil {
			return err
		}
		h["Content-Type"] = onlyJSON
		body = buf.Bytes()
	}
	for _, f := range out.headers {
		if text := v.FieldByIndex(f.index).String(); text != "" {
			h[f.name] = []string{text}
		}
	}
	if out.serve != nil {
		v.FieldByIndex(out.serve).Interface().(http.HandlerFunc)(w, r)
		return nil
	}
	status := out.status
	if out.code != nil {
		status = int(v.FieldByIndex(out.code).Int())
	}
	w.WriteHeader(status)
	if len(body) > 0 && status != http.StatusNoContent && status != http.StatusNotModified {
		_, _ = w.Write(body) // a failed write means that the client has disconnected
	}
	return nil
}

// encode writes v as JSON on one line. It does not escape "<", because the output is not HTML.
func encode(buf *bytes.Buffer, v any) error {
	e := json.NewEncoder(buf)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
