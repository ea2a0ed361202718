package bind

import (
	"cmp"
	"encoding"
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

// Input describes how a request becomes a handler's input. It is computed once for each operation, so that neither
// the compiler nor a request examines the type again.
type Input struct {
	typ    reflect.Type // the struct behind the handler's pointer
	reg    huma.Registry
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

// Operation is the operation whose input [New] describes.
type Operation struct {
	ID       string
	Refusals []*errs.Error // the refusals that a tag unknown may name
	Stream   reflect.Type  // type of a field Stream
}

// New returns the description of t, a struct. It panics if a request cannot fill t's fields.
func New(reg huma.Registry, t reflect.Type, op Operation) *Input {
	in := &Input{typ: t, reg: reg}
	for _, f := range reflect.VisibleFields(t) {
		switch {
		case f.Anonymous || !f.IsExported():
		case f.Name == "Body":
			in.body, in.required = f.Index, f.Type.Kind() != reflect.Pointer && f.Type.Kind() != reflect.Interface
			in.schema = huma.SchemaFromField(reg, f, Hint(t, f, op.ID+"Request"))
		case f.Name == "RawBody":
			in.body, in.required, in.media = f.Index, true, f.Tag.Get("contentType")
			if in.media == "" || f.Type != reflect.TypeFor[[]byte]() {
				panic("bind: the RawBody of " + op.ID + " must be []byte with a contentType tag")
			}
		case f.Name == "Stream":
			in.body, in.stream, in.media = f.Index, true, f.Tag.Get("contentType")
			if in.media == "" || f.Type != op.Stream {
				panic("bind: the Stream of " + op.ID + " must be a " + op.Stream.String() + " with a contentType tag")
			}
		default:
			in.params = append(in.params, newParam(reg, f, op))
		}
	}
	return in
}

// newParam describes a field. In a pointer field, nil means that the request has no value.
func newParam(reg huma.Registry, f reflect.StructField, op Operation) param {
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
		panic("bind: " + op.ID + ": the field " + f.Name + " has no path, query or header tag")
	}
	p.required = p.required || p.in == "path"
	switch kind := f.Type.Kind(); {
	case isID(f.Type):
		p.parse = idParser(p.in+"."+p.name, p.unknown(f, op))
	case kind == reflect.Slice && isID(f.Type.Elem()):
		p.parse = idsParser(p.in+"."+p.name, p.unknown(f, op))
	case kind == reflect.String:
		p.parse = parseString
	case kind == reflect.Int, kind == reflect.Int64:
		p.parse = parseInt
	case kind == reflect.Bool:
		p.parse = parseBool
	default:
		if f.Type != reflect.TypeFor[[]string]() {
			panic("bind: " + op.ID + ": " + p.in + "." + p.name + " cannot be a " + f.Type.String())
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

// Hint returns the schema name of a body whose type has no name.
func Hint(t reflect.Type, f reflect.StructField, otherwise string) string {
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

// unknown returns the refusal of a malformed id in the field f of p: the first code of the tag unknown that is in
// op.Refusals. It returns nil without the tag, but panics if a path's id has no refusal.
func (p *param) unknown(f reflect.StructField, op Operation) *errs.Error {
	codes, ok := f.Tag.Lookup("unknown")
	if !ok && p.in != "path" {
		return nil
	}
	for code := range strings.SplitSeq(codes, ",") {
		if i := slices.IndexFunc(op.Refusals, func(e *errs.Error) bool { return e.Code == code }); i >= 0 {
			return op.Refusals[i]
		}
	}
	panic("bind: " + op.ID + ": " + p.in + "." + p.name + " has no code of Op.Errors in its unknown tag")
}

// idParser returns the parser of an id at a location. A malformed id is refused with unknown, or [ids.ErrMalformed] if
// unknown is nil.
func idParser(where string, unknown *errs.Error) func(reflect.Value, string) (any, error) {
	return func(f reflect.Value, text string) (any, error) {
		if !setID(f, text) {
			return text, cmp.Or(unknown, malformedID(where))
		}
		return text, nil
	}
}

// idsParser is idParser for a list of ids.
func idsParser(where string, unknown *errs.Error) func(reflect.Value, string) (any, error) {
	return func(f reflect.Value, text string) (any, error) {
		list := strings.Split(text, ",")
		f.Set(reflect.MakeSlice(f.Type(), len(list), len(list)))
		for i, text := range list {
			if !setID(f.Index(i), text) {
				return list, cmp.Or(unknown, malformedID(fmt.Sprintf("%s[%d]", where, i)))
			}
		}
		return list, nil
	}
}

// setID sets f to an id and reports whether text is one.
func setID(f reflect.Value, text string) bool {
	return text != "" && f.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)) == nil
}

func malformedID(where string) *errs.Error { return ids.ErrMalformed.On(where, "is not an identifier") }

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

// HasBody reports whether Bind needs the body of a request.
func (in *Input) HasBody() bool { return in.body != nil && !in.stream }

// IsStream reports whether the handler reads the body itself; see [Input.SetStream].
func (in *Input) IsStream() bool { return in.stream }

// Media returns the media type of a body that is not JSON, or "".
func (in *Input) Media() string { return in.media }

// SetStream sets the field Stream of an input of Bind.
func (in *Input) SetStream(input, stream any) {
	reflect.ValueOf(input).Elem().FieldByIndex(in.body).Set(reflect.ValueOf(stream))
}

// Headers returns the values of the headers that the input has.
func (in *Input) Headers(r *http.Request) (values []string) {
	for i := range in.params {
		if p := &in.params[i]; p.in == "header" {
			values = append(values, p.from(r))
		}
	}
	return values
}

// Repeated returns the name of a query parameter that a request has twice. Such a request is refused, because a proxy
// may have read the other value.
func (in *Input) Repeated(r *http.Request) string {
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

// Bind returns the handler's input, a pointer to a struct, or a refusal with the faults of the request.
func (in *Input) Bind(r *http.Request, body []byte) (any, error) {
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
		in.params[i].bind(in.reg, c, v.Elem(), in.params[i].from(r))
	}
	refusal := ErrInvalid
	switch {
	case in.body == nil || in.stream:
	case len(body) == 0 && in.required:
		if len(c.found.Errors) == 0 {
			c.found.Add(c.at("body", ""), nil, "request body is required")
		}
		refusal = ErrMalformed
	case len(body) == 0:
	case in.media != "":
		v.Elem().FieldByIndex(in.body).SetBytes(body)
	default:
		refusal = in.bindJSON(c, v.Elem().FieldByIndex(in.body), body)
	}
	if len(c.found.Errors) > 0 {
		return nil, Refusal(refusal, c.found.Errors)
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
	switch refusal, isRefusal := err.(*errs.Error); {
	case isRefusal: // a malformed id, whose form the schema checks as well
		c.badID = cmp.Or(c.badID, error(refusal))
	case err != nil:
		c.found.Add(c.at(p.in, p.name), nil, err.Error())
		return
	}
	huma.Validate(reg, p.schema, c.at(p.in, p.name), huma.ModeWriteToServer, parsed, &c.found)
}

// bindJSON decodes the body twice: into an any, which is checked against the schema, then into the field. It returns
// the refusal, if there are faults.
func (in *Input) bindJSON(c *check, field reflect.Value, body []byte) *errs.Error {
	parsed, err := Decode(body)
	if err != nil {
		c.found.Add(c.at("body", ""), nil, err.Error())
		return ErrMalformed
	}
	before := len(c.found.Errors)
	huma.Validate(in.reg, in.schema, c.at("body", ""), huma.ModeWriteToServer, parsed, &c.found)
	if len(c.found.Errors) > before {
		return ErrInvalid
	}
	if err := Fill(body, field.Addr().Interface()); err != nil {
		c.found.Add(c.at("body", ""), nil, err.Error())
	}
	return ErrInvalid
}
