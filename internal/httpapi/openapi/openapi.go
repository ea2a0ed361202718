// Package openapi completes an OpenAPI document, and writes it without repetition.
//
// In a compact document, parameters and successful responses that several operations have are in components. So are the
// refusals that many operations share: an operation refers to one such response as its "default". Its other refusals
// refer to the response of their status, with a list of codes as their description. The text of each code is written
// once, in components.x-codes. The header X-Request-ID, which every response has, is only in those of shared refusals.
package openapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	parameterRef = "#/components/parameters/"
	responseRef  = "#/components/responses/"
	headerRef    = "#/components/headers/"
	problemRef   = SchemaRef + "Problem"
	problemMedia = "application/problem+json"
	everyHeader  = "X-Request-ID"
	// sharedPart is a divisor: a refusal is shared if at least one operation in sharedPart has it.
	sharedPart = 4
)

type object = map[string]any

// refusalLine matches one code and its text in the description of a refusal.
var refusalLine = regexp.MustCompile("^`([^`]+)`: (.+)$")

// Compact returns a document without repetition. [Expand] reverts it. Each refusal of the document must have a
// description with one line per code, "`CODE`: TEXT", and an empty line between them.
func Compact(document []byte) ([]byte, error) {
	doc, err := decode(document)
	if err != nil {
		return nil, err
	}
	components := doc["components"].(object)
	parameters, responses, texts := object{}, object{}, object{}
	operations := operationsOf(doc)
	for _, op := range operations {
		op.omitCommon(doc)
	}
	share(eachParameter(operations), parameterRef, parameters, parameterName)
	share(eachSuccess(operations), responseRef, responses, successName)
	refusals := sharedRefusals{responses: responses, texts: texts, names: map[string]string{}}
	if refusals.common, err = commonRefusals(operations); err != nil {
		return nil, err
	}
	for _, op := range operations {
		refusals.share(op.responses())
	}
	components["parameters"], components["responses"], components["x-codes"] = parameters, responses, texts
	return json.Marshal(doc)
}

// Expand returns the document of an API with every parameter and refusal written out in each operation.
func Expand(document []byte) ([]byte, error) {
	doc, err := decode(document)
	if err != nil {
		return nil, err
	}
	components := doc["components"].(object)
	parameters, responses, texts := components["parameters"].(object), components["responses"].(object), components["x-codes"].(object)
	for _, name := range []string{"parameters", "responses", "x-codes"} {
		delete(components, name)
	}
	for _, op := range operationsOf(doc) {
		list, _ := op["parameters"].([]any)
		for i, p := range list {
			if ref, ok := p.(object)["$ref"].(string); ok {
				list[i] = parameters[strings.TrimPrefix(ref, parameterRef)]
			}
		}
		all := op.responses()
		codes := map[string][]string{} // by status
		for status, r := range all {
			ref, ok := r.(object)["$ref"].(string)
			if !ok {
				continue
			}
			if status < "400" {
				all[status] = responses[strings.TrimPrefix(ref, responseRef)]
				continue
			}
			delete(all, status)
			if status != "default" {
				codes[status] = append(codes[status], strings.Split(r.(object)["description"].(string), ", ")...)
				continue
			}
			shared := responses[strings.TrimPrefix(ref, responseRef)].(object)
			for line := range strings.SplitSeq(shared["description"].(string), "\n\n") {
				status, list, _ := strings.Cut(line, ": ")
				codes[status] = append(codes[status], strings.Split(list, ", ")...)
			}
		}
		op.restoreCommon(doc)
		for status, list := range codes {
			shared, ok := responses[status].(object)
			if !ok {
				shared = plainRefusal()
			}
			all[status] = expanded(status, list, shared, texts)
		}
	}
	delete(doc, "security")
	return json.Marshal(doc)
}

// Unmarshal stores an expanded document in v, like [json.Unmarshal].
func Unmarshal(document []byte, v any) error {
	expanded, err := Expand(document)
	if err != nil {
		return err
	}
	return json.Unmarshal(expanded, v)
}

// expanded returns the refusals of a status with the given codes.
func expanded(status string, codes []string, shared, texts object) object {
	slices.Sort(codes)
	lines := make([]string, len(codes))
	for i, code := range codes {
		lines[i] = fmt.Sprintf("`%s`: %s", code, texts[code])
	}
	slices.Sort(lines)
	headers := object{everyHeader: object{"$ref": headerRef + everyHeader}}
	maps.Copy(headers, shared["headers"].(object))
	return object{"description": strings.Join(lines, "\n\n"), "headers": headers, "content": shared["content"], "x-codes": codes}
}

func decode(document []byte) (doc object, err error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	err = d.Decode(&doc)
	return doc, err
}

// operation is an operation of a document.
type operation map[string]any

func (o operation) responses() object { return o["responses"].(object) }

// omitCommon removes the security that most operations have, which becomes that of the document, and the header of
// every response. restoreCommon reverts it.
func (o operation) omitCommon(doc object) {
	list := o["security"].([]any)
	if doc["security"] == nil && len(list) > 0 {
		doc["security"] = list
	}
	if reflect.DeepEqual(list, doc["security"]) {
		delete(o, "security")
	}
	for status, r := range o.responses() {
		if headers := r.(object)["headers"].(object); status < "400" {
			delete(headers, everyHeader)
		}
	}
}

func (o operation) restoreCommon(doc object) {
	if o["security"] == nil {
		o["security"] = doc["security"]
	}
	for status, r := range o.responses() {
		if status < "400" {
			r.(object)["headers"].(object)[everyHeader] = object{"$ref": headerRef + everyHeader}
		}
	}
}

// operationsOf returns all operations in the order of their paths and methods.
func operationsOf(doc object) (all []operation) {
	paths, _ := doc["paths"].(object) // a node may have no operation
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		methods := paths[name].(object)
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			all = append(all, methods[method].(object))
		}
	}
	return all
}

// each calls fn for objects of a document and replaces them by its results.
type each func(fn func(object) object)

// share moves the objects that occur several times to shared, and leaves references with that prefix.
func share(objects each, prefix string, shared object, nameOf func(object) string) {
	uses, names := map[string]int{}, map[string]string{}
	objects(func(o object) object {
		uses[mustEncode(o)]++
		return o
	})
	objects(func(o object) object {
		content := mustEncode(o)
		if uses[content] < 2 {
			return o
		}
		if names[content] == "" {
			names[content] = freeName(shared, nameOf(o))
			shared[names[content]] = o
		}
		return object{"$ref": prefix + names[content]}
	})
}

// eachParameter returns the parameters of all operations.
func eachParameter(operations []operation) each {
	return func(fn func(object) object) {
		for _, op := range operations {
			list, _ := op["parameters"].([]any)
			for i, p := range list {
				list[i] = fn(p.(object))
			}
		}
	}
}

func parameterName(p object) string { return p["name"].(string) }

// eachSuccess returns the responses of all operations that are not refusals.
func eachSuccess(operations []operation) each {
	return func(fn func(object) object) {
		for _, op := range operations {
			responses := op.responses()
			for _, status := range slices.Sorted(maps.Keys(responses)) {
				if status < "400" {
					responses[status] = fn(responses[status].(object))
				}
			}
		}
	}
}

// successName returns the name of the schema of a response, or else the text of its status.
func successName(response object) string {
	content, _ := response["content"].(object)
	for _, media := range content { // there is only one
		schema, _ := media.(object)["schema"].(object)
		if ref, ok := schema["$ref"].(string); ok {
			return path.Base(ref)
		}
	}
	return strings.ReplaceAll(response["description"].(string), " ", "")
}

// freeName returns name, or the first of name2, name3 and so on that is not in use.
func freeName(used object, name string) string {
	for free, n := name, 2; ; n++ {
		if used[free] == nil {
			return free
		}
		free = name + strconv.Itoa(n)
	}
}

// refusal is a code of a status, with its text.
type refusal struct{ status, code, text string }

// refusalsOf returns the refusals of an operation.
func refusalsOf(responses object) (all []refusal, err error) {
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		if status < "400" {
			continue
		}
		for line := range strings.SplitSeq(responses[status].(object)["description"].(string), "\n\n") {
			m := refusalLine.FindStringSubmatch(line)
			if m == nil {
				return nil, fmt.Errorf("openapi: the refusals of %s are described by %q", status, line)
			}
			all = append(all, refusal{status, m[1], m[2]})
		}
	}
	return all, nil
}

// commonRefusals returns the refusals that many operations have.
func commonRefusals(operations []operation) (map[refusal]bool, error) {
	uses, common := map[refusal]int{}, map[refusal]bool{}
	for _, op := range operations {
		all, err := refusalsOf(op.responses())
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			uses[r]++
		}
	}
	for r, n := range uses {
		common[r] = n*sharedPart >= len(operations)
	}
	return common, nil
}

// sharedRefusals has the refusals of several operations.
type sharedRefusals struct {
	common    map[refusal]bool
	responses object            // by status, and the defaults by their names
	texts     object            // by code
	names     map[string]string // of the defaults, by their codes as JSON
}

// share replaces the refusals of an operation by references. A status stays if one of its codes has another text in an
// earlier operation.
func (s sharedRefusals) share(responses object) {
	all, _ := refusalsOf(responses) // commonRefusals has checked them
	stays := map[string]bool{}
	for _, r := range all {
		text, found := s.texts[r.code]
		stays[r.status] = stays[r.status] || found && text != r.text
	}
	byDefault, own := map[string][]string{}, map[string][]string{} // codes by status
	for _, r := range all {
		if stays[r.status] {
			continue
		}
		s.texts[r.code] = r.text
		if s.common[r] {
			byDefault[r.status] = append(byDefault[r.status], r.code)
		} else {
			own[r.status] = append(own[r.status], r.code)
		}
	}
	headers := object{} // of the default
	for status := range byDefault {
		maps.Copy(headers, responses[status].(object)["headers"].(object))
	}
	for status := range responses {
		if status < "400" || stays[status] {
			continue
		}
		refusal := responses[status].(object)
		delete(responses, status)
		delete(refusal, "x-codes")
		delete(refusal, "description")
		delete(refusal["headers"].(object), everyHeader)
		if codes := own[status]; len(codes) > 0 {
			responses[status] = object{"$ref": responseRef + status, "description": strings.Join(codes, ", ")}
		} else if reflect.DeepEqual(refusal, plainRefusal()) {
			continue // Expand needs no record of it
		}
		refusal["description"] = statusText(status)
		s.responses[status] = refusal
	}
	if len(byDefault) > 0 {
		responses["default"] = object{"$ref": responseRef + s.defaultName(byDefault, headers)}
	}
}

// defaultName returns the name of the default response with these codes.
func (s sharedRefusals) defaultName(codes map[string][]string, headers object) string {
	content := mustEncode(codes)
	if s.names[content] == "" {
		s.names[content] = freeName(s.responses, "Common")
		s.responses[s.names[content]] = object{"description": defaultText(codes), "headers": headers, "content": plainRefusal()["content"]}
	}
	return s.names[content]
}

// plainRefusal returns the headers and the content of most refusals.
func plainRefusal() object {
	return object{
		"headers": object{},
		"content": object{problemMedia: object{"schema": object{"$ref": problemRef}}},
	}
}

// defaultText lists codes by status.
func defaultText(codes map[string][]string) string {
	var lines []string
	for _, status := range slices.Sorted(maps.Keys(codes)) {
		lines = append(lines, status+": "+strings.Join(codes[status], ", "))
	}
	return strings.Join(lines, "\n\n")
}

func statusText(status string) string {
	n, _ := strconv.Atoi(status)
	return cmp.Or(http.StatusText(n), status)
}

// mustEncode returns v as JSON. Maps are sorted by their keys.
func mustEncode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a decoded document can be encoded
	}
	return string(b)
}
