package web

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/queryparam"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
)

// input describes how a request becomes a handler's input. It is computed once for each operation, so that neither
// the compiler nor a request examines the type again.
type input struct {
	typ    reflect.Type // the struct behind the handler's pointer
	params []param

	body     []int // index of the field Body, RawBody or Stream; nil if the operation reads no body
	required bool
	media    string       // media type of a RawBody or Stream; empty for JSON
	stream   bool         // body is a Stream
	schema   *huma.Schema // of a JSON body
}

// param is one field that comes from the path, the query or a header.
type param struct {
	index    []int
	in, name string
	fallback string // the default tag
	required bool
	parse    func(field reflect.Value, text string) (any, error) // sets the field; returns the value that the schema checks
	schema   *huma.Schema
}

// newInput panics if a request cannot fill t's fields. refusals are those of the operation; see [newParam].
func newInput(reg huma.Registry, t reflect.Type, id string, refusals []*errs.Error) *input {
	in := &input{typ: t}
	for _, f := range reflect.VisibleFields(t) {
		switch {
		case f.Anonymous || !f.IsExported():
		case f.Name == "Body":
			in.body, in.required = f.Index, f.Type.Kind() != reflect.Pointer && f.Type.Kind() != reflect.Interface
			in.schema = huma.SchemaFromField(reg, f, hint(t, f, id+"Request"))
		case f.Name == "RawBody":
			in.body, in.required, in.media = f.Index, true, f.Tag.Get("contentType")
			if in.media == "" || f.Type != reflect.TypeFor[[]byte]() {
				panic("web: the RawBody of " + id + " must be []byte with a contentType tag")
			}
		case f.Name == "Stream":
			in.body, in.stream, in.media = f.Index, true, f.Tag.Get("contentType")
			if in.media == "" || f.Type != reflect.TypeFor[*Stream]() {
				panic("web: the Stream of " + id + " must be a *web.Stream with a contentType tag")
			}
		default:
			in.params = append(in.params, newParam(reg, f, id, refusals))
		}
	}
	return in
}

// newParam describes a field. In a pointer field, nil means that the request has no value. A malformed id is refused with
// the first code of the field's unknown tag that is among refusals, because it identifies nothing. Without the tag, the
// refusal is [ids.ErrMalformed].
func newParam(reg huma.Registry, f reflect.StructField, id string, refusals []*errs.Error) param {
	pointer := f.Type.Kind() == reflect.Pointer
	if pointer {
		f.Type = f.Type.Elem()
	}
	p := param{index: f.Index, fallback: f.Tag.Get("default"), required: f.Tag.Get("required") == "true",
		schema: huma.SchemaFromField(reg, f, "")}
	for _, p.in = range []string{"path", "query", "header"} {
		if p.name = f.Tag.Get(p.in); p.name != "" {
			break
		}
	}
	if p.name == "" {
		panic("web: " + id + ": the field " + f.Name + " has no path, query or header tag")
	}
	p.required = p.required || p.in == "path"
	switch kind := f.Type.Kind(); {
	case isID(f.Type):
		p.parse = idParser(p.unknown(f, id, refusals))
	case kind == reflect.Slice && isID(f.Type.Elem()):
		p.parse = idsParser(p.in + "." + p.name)
	case kind == reflect.String:
		p.parse = parseString
	case kind == reflect.Int, kind == reflect.Int64:
		p.parse = parseInt
	case kind == reflect.Bool:
		p.parse = parseBool
	default:
		if f.Type != reflect.TypeFor[[]string]() {
			panic("web: " + id + ": " + p.in + "." + p.name + " cannot be a " + f.Type.String())
		}
		p.parse = parseList
	}
	if pointer {
		parse := p.parse
		p.parse = func(field reflect.Value, text string) (any, error) {
			field.Set(reflect.New(f.Type))
			return parse(field.Elem(), text)
		}
	}
	return p
}

// hint returns the schema name of a body whose type has no name.
func hint(t reflect.Type, f reflect.StructField, otherwise string) string {
	if t.Name() != "" {
		return t.Name() + f.Name
	}
	return otherwise
}

func parseString(f reflect.Value, text string) (any, error) {
	f.SetString(text)
	return text, nil
}

func parseInt(f reflect.Value, text string) (any, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, errors.New("invalid integer")
	}
	f.SetInt(n)
	return n, nil
}

func parseBool(f reflect.Value, text string) (any, error) {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return nil, errors.New("invalid boolean")
	}
	f.SetBool(b)
	return b, nil
}

func parseList(f reflect.Value, text string) (any, error) {
	list := strings.Split(text, ",")
	f.Set(reflect.ValueOf(list))
	return list, nil
}

// isID reports whether t is an [ids.ID].
func isID(t reflect.Type) bool {
	return t.PkgPath() == reflect.TypeFor[ids.ID[any]]().PkgPath() &&
		reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// unknown returns the refusal of a malformed id in the field f of p. It panics if a path's id has none.
func (p *param) unknown(f reflect.StructField, id string, refusals []*errs.Error) *errs.Error {
	codes, ok := f.Tag.Lookup("unknown")
	if !ok && p.in != "path" {
		return ids.ErrMalformed.On(p.in+"."+p.name, notAnID)
	}
	for code := range strings.SplitSeq(codes, ",") {
		if i := slices.IndexFunc(refusals, func(e *errs.Error) bool { return e.Code == code }); i >= 0 {
			return refusals[i]
		}
	}
	panic("web: " + id + ": " + p.in + "." + p.name + " has no code of Op.Errors in its unknown tag")
}

const notAnID = "is not an identifier"

// idParser returns the parser of an id. A malformed id is refused with unknown.
func idParser(unknown *errs.Error) func(reflect.Value, string) (any, error) {
	return func(f reflect.Value, text string) (any, error) {
		if setID(f, text) != nil {
			return text, unknown
		}
		return text, nil
	}
}

// idsParser returns the parser of a list of ids at a location.
func idsParser(where string) func(reflect.Value, string) (any, error) {
	return func(f reflect.Value, text string) (any, error) {
		list := strings.Split(text, ",")
		f.Set(reflect.MakeSlice(f.Type(), len(list), len(list)))
		for i, text := range list {
			if text == "" || setID(f.Index(i), text) != nil {
				return list, ids.ErrMalformed.On(fmt.Sprintf("%s[%d]", where, i), notAnID)
			}
		}
		return list, nil
	}
}

func setID(f reflect.Value, text string) error {
	return f.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
}

// from returns the request's value of p, "" if it has none.
func (p *param) from(r *http.Request) string {
	switch p.in {
	case "path":
		return r.PathValue(p.name)
	case "query":
		return queryparam.Get(r.URL.RawQuery, p.name)
	}
	// The lines of a header form one list (RFC 9110, section 5.3), which no parameter with a single value accepts.
	return strings.Join(r.Header.Values(p.name), ", ")
}

// repeated returns the name of a query parameter, or of [ActAsHeader], that a request has twice. Such a request is
// refused, because a proxy may have read the other value.
func (in *input) repeated(r *http.Request) string {
	if len(r.Header[ActAsHeader]) > 1 {
		return "header." + ActAsHeader
	}
	rest := r.URL.RawQuery
	if !strings.Contains(rest, "&") {
		return ""
	}
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(rest, "&") {
		name, _, _ := strings.Cut(pair, "=")
		name, _ = url.QueryUnescape(name)
		if seen[name] && slices.ContainsFunc(in.params, func(p param) bool { return p.in == "query" && p.name == name }) {
			return "query." + name
		}
		seen[name] = true
	}
	return ""
}

// check collects the faults of one request.
type check struct {
	path  *huma.PathBuffer
	found huma.ValidateResult
	badID error // refuses the first malformed id of a request without other faults
}

// checks pools them, because huma's validator appends to both.
var checks = sync.Pool{New: func() any { return &check{path: huma.NewPathBuffer(make([]byte, 0, 128), 0)} }}

func (c *check) at(in, name string) *huma.PathBuffer {
	c.path.Reset()
	c.path.Push(in)
	if name != "" {
		c.path.Push(name)
	}
	return c.path
}

// bind returns the handler's input, a pointer to a struct of in.typ, or a refusal with the faults of the request.
func (in *input) bind(reg huma.Registry, value func(*param) string, body []byte) (any, error) {
	v := reflect.New(in.typ)
	if len(in.params) == 0 && in.body == nil {
		return v.Interface(), nil
	}
	c := checks.Get().(*check)
	defer func() {
		c.found.Reset()
		c.badID = nil
		checks.Put(c)
	}()
	for i := range in.params {
		in.params[i].bind(reg, c, v.Elem(), value(&in.params[i]))
	}
	refusal := errInvalid
	switch {
	case in.body == nil || in.stream:
	case len(body) == 0 && in.required:
		if len(c.found.Errors) == 0 {
			c.found.Add(c.at("body", ""), nil, "request body is required")
		}
		refusal = errMalformed
	case len(body) == 0:
	case in.media != "":
		v.Elem().FieldByIndex(in.body).SetBytes(body)
	default:
		refusal = in.bindJSON(reg, c, v.Elem().FieldByIndex(in.body), body)
	}
	if len(c.found.Errors) > 0 {
		return nil, faulty(refusal, c.found.Errors)
	}
	return v.Interface(), c.badID
}

func (p *param) bind(reg huma.Registry, c *check, v reflect.Value, text string) {
	if text == "" {
		text = p.fallback
	}
	if text == "" {
		if p.required {
			c.found.Add(c.at(p.in, p.name), nil, "required "+p.in+" parameter is missing")
		}
		return
	}
	parsed, err := p.parse(v.FieldByIndex(p.index), text)
	if errs.KindOf(err) != errs.Internal { // a malformed id
		c.badID = cmp.Or(c.badID, err)
	} else if err != nil {
		c.found.Add(c.at(p.in, p.name), nil, err.Error())
		return
	}
	huma.Validate(reg, p.schema, c.at(p.in, p.name), huma.ModeWriteToServer, parsed, &c.found)
}

// bindJSON decodes the body twice: into an any, which is checked against the schema, then into the field. It returns
// the refusal, if there are faults.
func (in *input) bindJSON(reg huma.Registry, c *check, field reflect.Value, body []byte) *errs.Error {
	parsed, err := decode(body)
	if err != nil {
		c.found.Add(c.at("body", ""), nil, err.Error())
		return errMalformed
	}
	before := len(c.found.Errors)
	huma.Validate(reg, in.schema, c.at("body", ""), huma.ModeWriteToServer, parsed, &c.found)
	if len(c.found.Errors) > before {
		return errInvalid
	}
	if err := fill(body, field.Addr().Interface()); err != nil {
		c.found.Add(c.at("body", ""), nil, err.Error())
	}
	return errInvalid
}

// fill decodes a body that satisfies the schema into v, whose type it may still not fit. Its error contains no value
// of the body.
func fill(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && strings.HasPrefix(e.Value, "number ") {
		err = json.Unmarshal(wholeNumbers(body), v) // in the schema, 1e2 and 40.0 are integers
	}
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return errors.New("has a value of the wrong type at " + e.Field)
	}
	return errors.New("has a value of the wrong type")
}

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
